#include "trainer/run/generate.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
#include "trainer/cuda/stage/cuda_stage.h"
#include "trainer/cuda/testing/pretended_device.h"

namespace tombolo::trainer {
namespace {

/// A model whose blocks add nothing: what follows a byte is decided by the byte's embedding alone.
struct Echo {
  Echo() {
    shape.context = 4;
    shape.padded_vocabulary = 256;
    shape.layers = 1;
    shape.heads = 1;
    shape.width = 4;
    parameters.assign(parameter_count(shape), 0.0F);
    for (int at = 0; at < 4; ++at)
      parameters[tensor_position(shape, Tensor::kFinalNormWeight, 0) + static_cast<std::size_t>(at)] = 1;
    const float direction[4] = {3, -1, -1, -1};
    for (int at = 0; at < 4; ++at) {
      parameters[static_cast<std::size_t>('a' * 4 + at)] = direction[at];
      parameters[static_cast<std::size_t>('b' * 4 + at)] = 2 * direction[at];
    }
  }
  Shape shape;
  std::vector<float> parameters;
};

TEST(Generate, WithoutTemperatureTheLikeliestByteFollows) {
  const Echo model;
  const GenerateOptions options{.tokens = 9, .temperature = 0, .prompt = "a"};  // more than the context holds
  // Both point the same way, and "b" twice as far: it scores highest after either.
  EXPECT_EQ(generate(model.shape, model.parameters, options).text, "bbbbbbbbb");
}

TEST(Generate, TheSeedDecidesAndTemperatureSpreads) {
  const Echo model;
  GenerateOptions options{.tokens = 40, .temperature = 30, .prompt = "a"};
  const std::string first = generate(model.shape, model.parameters, options).text;
  EXPECT_EQ(first.size(), 40U);
  EXPECT_EQ(generate(model.shape, model.parameters, options).text, first);
  options.seed = 2;
  EXPECT_NE(generate(model.shape, model.parameters, options).text, first);
}

TEST(Generate, AGpuWritesWhatTheCpuWrites) {
  const Echo model;
  GenerateOptions options{.tokens = 9, .temperature = 0, .prompt = "a"};
  options.make_stage = cuda::cuda_stages([] { return std::make_shared<cuda::PretendedDevice>(); });
  EXPECT_EQ(generate(model.shape, model.parameters, options).text, "bbbbbbbbb");
}

TEST(Generate, AStopIsHeededBeforeEveryByte) {
  const Echo model;
  const GenerateOptions options{.tokens = 40, .temperature = 0, .prompt = "a"};
  int asked = 0;
  const auto made = generate(model.shape, model.parameters, options, [&] { return ++asked > 3; });
  EXPECT_EQ(made.text, "bbb");
  EXPECT_EQ(made.tokens, 3);
}

TEST(Generate, AnEmptyPromptAndANegativeTemperatureAreRefused) {
  const Echo model;
  for (const GenerateOptions& options : {GenerateOptions{.tokens = 1, .prompt = ""},
                                         GenerateOptions{.tokens = 1, .temperature = -1, .prompt = "a"}})
    EXPECT_THROW(generate(model.shape, model.parameters, options), Error);
}

}  // namespace
}  // namespace tombolo::trainer
