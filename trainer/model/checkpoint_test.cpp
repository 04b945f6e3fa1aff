#include "trainer/model/checkpoint.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/temporary_folder.h"
#include "collectives/data/half.h"
#include "trainer/testing/expect_refusal.h"

namespace tombolo::trainer {
namespace {

using test::expect_refusal;

Shape padded_shape() {
  Shape shape;
  shape.context = 8;
  shape.vocabulary = 250;
  shape.padded_vocabulary = 256;
  shape.layers = 3;
  shape.heads = 2;
  shape.width = 6;
  return shape;
}

TEST(Checkpoint, ReadBackByAnyStagesHoldsWhatWasWritten) {
  const TemporaryFolder folder;
  const Shape shape = padded_shape();
  std::vector<float> all(parameter_count(shape));
  for (std::size_t at = 0; at < all.size(); ++at) all[at] = static_cast<float>(at);
  write_checkpoint(folder.file("model"), shape, all);
  EXPECT_EQ(read_checkpoint_shape(folder.file("model")), shape);
  for (auto [first, layers] : {std::pair{0, 3}, std::pair{0, 1}, std::pair{1, 1}, std::pair{1, 2}}) {
    const StageParameters parameters(shape, first, layers);
    std::vector<float> arena(parameters.size());
    read_checkpoint(folder.file("model"), parameters, arena);
    for (const Slice& slice : parameters.slices())
      for (std::size_t at = 0; at < slice.elements; ++at)
        ASSERT_EQ(arena[slice.offset + at], static_cast<float>(slice.position + at));
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1)
      << "a temporary file is left";
}

TEST(Checkpoint, ItsBytesAreLlmCs) {
  const TemporaryFolder folder;
  const Shape shape = padded_shape();
  std::vector<float> all(parameter_count(shape));
  all[0] = 1.5F;
  write_checkpoint(folder.file("model"), shape, all);
  const std::string bytes = folder.read("model");
  ASSERT_EQ(bytes.size(), 1024 + 4 * all.size());
  std::array<std::int32_t, 9> header{};
  std::memcpy(header.data(), bytes.data(), sizeof header);
  EXPECT_EQ(header, (std::array<std::int32_t, 9>{20240326, 3, 8, 250, 3, 2, 6, 256, 0}));
  float first = 0;
  std::memcpy(&first, bytes.data() + 1024, sizeof first);
  EXPECT_EQ(first, 1.5F);
  // wte, wpe, then ln1w of all layers, ...
  EXPECT_EQ(tensor_position(shape, Tensor::kNorm1Weight, 2), 256u * 6 + 8 * 6 + 2 * 6);
  EXPECT_EQ(tensor_position(shape, Tensor::kQkvWeight, 1), 256u * 6 + 8 * 6 + 3 * 6 * 2 + 3 * 36);
}

TEST(Checkpoint, OfBfloat16HoldsTheValuesRounded) {
  const TemporaryFolder folder;
  const Shape shape = padded_shape();
  std::vector<float> all(parameter_count(shape));
  for (std::size_t at = 0; at < all.size(); ++at) all[at] = static_cast<float>(at) - 100.3F;
  write_checkpoint(folder.file("model"), shape, all, ValueType::kBfloat16);
  const std::string bytes = folder.read("model");
  ASSERT_EQ(bytes.size(), 1024 + 2 * all.size());
  EXPECT_EQ(bytes[4], 5);
  EXPECT_EQ(read_checkpoint_shape(folder.file("model")), shape);
  const StageParameters parameters(shape, 0, 3);
  std::vector<float> arena(parameters.size());
  read_checkpoint(folder.file("model"), parameters, arena);
  for (const Slice& slice : parameters.slices())
    for (std::size_t at = 0; at < slice.elements; ++at) {
      const float exact = all[slice.position + at], stored = arena[slice.offset + at];
      ASSERT_EQ(stored, to_float(collectives::to_bfloat16(exact)));
      ASSERT_NEAR(stored, exact, std::abs(exact) / 256);
    }
  // What bf16 holds exactly comes back exactly.
  for (float& value : all) value = to_float(collectives::to_bfloat16(value));
  write_checkpoint(folder.file("again"), shape, all, ValueType::kBfloat16);
  EXPECT_EQ(folder.read("again"), bytes);
}

TEST(Checkpoint, ThatIsMalformedIsRefusedByName) {
  const TemporaryFolder folder;
  const Shape shape = padded_shape();
  write_checkpoint(folder.file("good"), shape, std::vector<float>(parameter_count(shape)));
  const std::string good = folder.read("good");
  auto with = [&](std::size_t index, std::int32_t value) {
    std::string bytes = good;
    std::memcpy(bytes.data() + 4 * index, &value, sizeof value);
    folder.write("bad", bytes);
    return [&folder] { read_checkpoint_shape(folder.file("bad")); };
  };
  expect_refusal([&] { read_checkpoint_shape(folder.file("none")); }, {"none", "No such file"});
  folder.write("bad", "short");
  expect_refusal([&] { read_checkpoint_shape(folder.file("bad")); }, {"bad", "5 bytes"});
  expect_refusal(with(0, 7), {"magic number 7", "20240326"});
  expect_refusal(with(1, 1), {"version 1", "3 (fp32)", "5 (bf16)"});
  expect_refusal(with(1, 5), {"not this format", "bf16"});  // by its size
  expect_refusal(with(6, 7), {"width 7 is not a multiple of heads 2"});
  expect_refusal(with(4, -1), {"layers is -1"});
  expect_refusal(with(4, 4), {"cut short"});
  folder.write("bad", good.substr(0, good.size() - 1));
  expect_refusal([&] { read_checkpoint_shape(folder.file("bad")); }, {"cut short"});
  folder.write("bad", good + "x");
  expect_refusal([&] { read_checkpoint_shape(folder.file("bad")); }, {"not this format"});
}

}  // namespace
}  // namespace tombolo::trainer
