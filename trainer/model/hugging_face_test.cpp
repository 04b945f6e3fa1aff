#include "trainer/model/hugging_face.h"

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "base/randomized_test.h"
#include "base/temporary_folder.h"
#include "collectives/data/half.h"
#include "trainer/model/model_file.h"
#include "trainer/model/safetensors.h"
#include "trainer/testing/expect_refusal.h"

namespace tombolo::trainer {
namespace {

using test::expect_refusal;

class HuggingFace : public testing::Test {
 protected:
  HuggingFace() {
    shape_.context = 8;
    shape_.vocabulary = 100;
    shape_.padded_vocabulary = 128;
    shape_.layers = 3;
    shape_.heads = 2;
    shape_.width = 6;
    std::mt19937 random(test_seed());
    all_.resize(parameter_count(shape_));
    for (float& value : all_) value = static_cast<float>(random() % 20001) / 10000.0F - 1.0F;
    // Rows of the embedding beyond the vocabulary are not in these files.
    for (std::size_t at = 100U * 6; at < 128U * 6; ++at) all_[at] = 0;
  }

  std::string model() const { return folder_.file("model.safetensors"); }
  /// The header that was written, and what follows it.
  std::pair<Json, std::string> written() const {
    const std::string bytes = folder_.read("model.safetensors");
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    return {Json::parse(bytes.substr(8, length)), bytes.substr(8 + length)};
  }
  void write(const std::string& header, const std::string& data) const {
    const std::uint64_t length = header.size();
    folder_.write("model.safetensors",
                  std::string(reinterpret_cast<const char*>(&length), 8) + header + data);
  }
  static float value_at(const std::string& data, const Json& tensor, std::size_t index) {
    float value = 0;
    std::memcpy(&value, data.data() + tensor["data_offsets"][0].get<std::size_t>() + 4 * index, sizeof value);
    return value;
  }

  Shape shape_;
  std::vector<float> all_;
  TemporaryFolder folder_;
};

TEST_F(HuggingFace, ReadBackByAnyStagesHoldsWhatWasWritten) {
  write_model(model(), shape_, all_, ValueType::kFloat32);
  for (const std::string& path : {model(), folder_.path().string()}) {
    EXPECT_EQ(read_model_shape(path), shape_);
    EXPECT_EQ(read_whole_model(path, shape_), all_);
    for (auto [first, layers] : {std::pair{0, 1}, std::pair{1, 1}, std::pair{1, 2}}) {
      const StageParameters parameters(shape_, first, layers);
      std::vector<float> arena(parameters.size());
      read_model(path, parameters, arena);
      for (const Slice& slice : parameters.slices())
        for (std::size_t at = 0; at < slice.elements; ++at)
          ASSERT_EQ(arena[slice.offset + at], all_[slice.position + at]) << tensor_info(slice.tensor).name;
    }
  }
}

TEST_F(HuggingFace, HalvesAreRoundedOnceAndReadExactly) {
  for (const ValueType type : {ValueType::kBfloat16, ValueType::kFloat16}) {
    write_model(model(), shape_, all_, type);
    const auto read = read_whole_model(model(), shape_);
    for (std::size_t at = 0; at < all_.size(); ++at)
      ASSERT_EQ(read[at], type == ValueType::kBfloat16 ? to_float(collectives::to_bfloat16(all_[at]))
                                                       : to_float(collectives::to_float16(all_[at])));
  }
}

TEST_F(HuggingFace, NamesShapesAndTransposedWeightsAreItsOwn) {
  write_model(model(), shape_, all_, ValueType::kFloat32);
  const auto [header, data] = written();
  EXPECT_EQ(header.size(), 4U + 3 * 12 + 1);  // and the metadata
  EXPECT_EQ(header["__metadata__"]["format"], "pt");
  EXPECT_EQ(header["transformer.wte.weight"]["shape"], (Json{100, 6}));
  EXPECT_EQ(header["transformer.h.2.ln_1.bias"]["shape"], (Json{6}));
  const Json& qkv = header["transformer.h.1.attn.c_attn.weight"];
  EXPECT_EQ(qkv["shape"], (Json{6, 18}));
  EXPECT_EQ(header["transformer.h.1.mlp.c_proj.weight"]["shape"], (Json{24, 6}));
  const std::size_t begin = tensor_position(shape_, Tensor::kQkvWeight, 1);
  for (std::size_t in = 0; in < 6; ++in)
    for (std::size_t out = 0; out < 18; ++out)
      EXPECT_EQ(value_at(data, qkv, in * 18 + out), all_[begin + out * 6 + in]);
  EXPECT_EQ((folder_.read("model.safetensors").size() - data.size()) % 8, 0U);
  const Json config = Json::parse(folder_.read("config.json"));
  EXPECT_EQ(config["n_head"], 2);
  EXPECT_EQ(config["activation_function"], "gelu_new");
}

TEST_F(HuggingFace, OlderFilesHaveNoPrefixAndMasksBesideTheWeights) {
  write_model(model(), shape_, all_, ValueType::kFloat32);
  auto [header, data] = written();
  Json older{{"h.0.attn.bias", {{"dtype", "U8"}, {"shape", {1, 1, 2, 2}}, {"data_offsets", {0, 4}}}}};
  for (const auto& [name, tensor] : header.items())
    if (name.starts_with("transformer.")) older[name.substr(12)] = tensor;
  write(older.dump(), data);
  EXPECT_EQ(read_whole_model(model(), shape_), all_);
}

TEST_F(HuggingFace, AnotherArchitectureIsRefusedByName) {
  write_model(model(), shape_, all_, ValueType::kFloat32);
  const Json good = Json::parse(folder_.read("config.json"));
  const auto refused = [&](const char* field, const Json& value, std::initializer_list<const char*> words,
                           Cause cause) {
    Json config = good;
    config[field] = value;
    folder_.write("config.json", config.dump());
    expect_refusal([&] { read_model_shape(model()); }, words, cause);
  };
  refused("model_type", "llama", {"llama", "GPT-2"}, Cause::kUnsupported);
  refused("activation_function", "relu", {"relu"}, Cause::kUnsupported);
  refused("n_inner", 25, {"n_inner", "MLP"}, Cause::kUnsupported);
  refused("layer_norm_epsilon", 1e-6, {"epsilon"}, Cause::kUnsupported);
  refused("tie_word_embeddings", false, {"tie_word_embeddings"}, Cause::kUnsupported);
  refused("scale_attn_by_inverse_layer_idx", true, {"scale_attn"}, Cause::kUnsupported);
  refused("n_head", 4, {"not a multiple of heads 4"}, Cause::kInvalidUsage);
  refused("n_layer", -1, {"n_layer"}, Cause::kInvalidUsage);
  refused("n_layer", 4, {"h.3.ln_1.weight"}, Cause::kInvalidUsage);
  refused("vocab_size", 101, {"wte.weight", "[100, 6]", "[101, 6]"}, Cause::kInvalidUsage);
  std::filesystem::remove(folder_.path() / "config.json");
  expect_refusal([&] { read_model_shape(model()); }, {"config.json", "heads"});
  expect_refusal([&] { read_model_shape(folder_.file("none.safetensors")); },
                 {"none.safetensors", "no such file"});
  std::filesystem::remove(folder_.path() / "model.safetensors");
  expect_refusal([&] { read_model_shape(folder_.path().string()); }, {"model.safetensors"});
}

TEST_F(HuggingFace, AMalformedHeaderIsRefusedByName) {
  write_model(model(), shape_, all_, ValueType::kFloat32);
  const auto file = written();
  const Json& good = file.first;
  const std::string& data = file.second;
  const std::string bytes = folder_.read("model.safetensors");
  const auto refused = [&](const char* pointer, const Json& value, std::initializer_list<const char*> words,
                           Cause cause = Cause::kInvalidUsage) {
    Json header = good;
    header[Json::json_pointer(pointer)] = value;
    write(header.dump(), data);
    expect_refusal([&] { read_model_shape(model()); }, words, cause);
  };
  const std::string bias = "/transformer.ln_f.bias";
  refused((bias + "/dtype").c_str(), "I32", {"ln_f.bias", "I32"}, Cause::kUnsupported);
  refused((bias + "/dtype").c_str(), "F16", {"ln_f.bias", "6 elements of F16", "24 bytes"});
  refused((bias + "/shape").c_str(), Json{7}, {"7 elements"});
  refused((bias + "/shape").c_str(), Json{1ULL << 62, 1ULL << 62}, {"more elements"});
  refused((bias + "/shape/0").c_str(), -6, {"ln_f.bias"});
  refused((bias + "/data_offsets").c_str(), Json{8, 0}, {"8 to 0"});
  refused((bias + "/data_offsets").c_str(), Json{0, 1ULL << 40}, {"not within"});
  refused((bias + "/data_offsets").c_str(), Json{0}, {"begin and end"});
  refused(bias.c_str(), 5, {"ln_f.bias"});
  write("{", data);
  expect_refusal([&] { read_model_shape(model()); }, {"model.safetensors", "header"});
  folder_.write("model.safetensors", "1234567");
  expect_refusal([&] { read_model_shape(model()); }, {"7 bytes"});
  folder_.write("model.safetensors", bytes.substr(0, 100));
  expect_refusal([&] { read_model_shape(model()); }, {"does not fit the file of 100"});
  folder_.write("model.safetensors", bytes.substr(0, bytes.size() - 1));
  expect_refusal([&] { read_model_shape(model()); }, {"cut short"});
}

}  // namespace
}  // namespace tombolo::trainer
