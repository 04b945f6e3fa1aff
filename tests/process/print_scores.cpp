// Prints what a model says of tokens, for hugging_face_parity.py:  print_scores MODEL TOKEN...
// One line per token: the scores of all that may follow it.
#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "trainer/cpu/cpu_stage.h"
#include "trainer/model/model_file.h"

using namespace tombolo;
using namespace tombolo::trainer;

namespace {

void print_scores(const std::string& path, std::span<const std::int32_t> given) {
  StageOptions options;
  options.shape = read_model_shape(path);
  options.layers = options.shape.layers;
  options.training = false;
  const auto context = static_cast<std::size_t>(options.shape.context);
  if (given.size() > context)
    fail(Cause::kInvalidUsage, "{} tokens, but the context is {}", given.size(), context);
  const auto stage = make_cpu_stage(options);
  read_model(path, stage->layout(), stage->parameters());
  std::vector<std::int32_t> tokens(given.begin(), given.end());
  tokens.resize(context);
  stage->forward(0, tokens, {}, {});
  for (std::size_t position = 0; position < given.size(); ++position) {
    for (const float score : stage->scores(0, 0, static_cast<int>(position)))
      std::printf("%.9g ", static_cast<double>(score));
    std::printf("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  std::vector<std::int32_t> tokens;
  for (int index = 2; index < argc; ++index) tokens.push_back(std::atoi(argv[index]));
  try {
    print_scores(argv[1], tokens);
  } catch (const Error& error) {
    std::fprintf(stderr, "print_scores: %s\n", error.what());
    return 1;
  }
  return 0;
}
