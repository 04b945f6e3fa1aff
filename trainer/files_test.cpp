// What is read from and written to files: training text and checkpoints.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/error.h"
#include "trainer/checkpoint.h"
#include "trainer/data.h"

namespace tombolo::trainer {
namespace {

class Files : public testing::Test {
 protected:
  Files() { std::filesystem::create_directories(folder_); }
  ~Files() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
  }
  std::string bytes_of(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// What `action` throws must hold all of `words`.
  void expect_error(const std::function<void()>& action, std::initializer_list<const char*> words) {
    try {
      action();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
      for (const char* word : words)
        EXPECT_NE(std::string(error.what()).find(word), std::string::npos)
            << error.what() << " lacks " << word;
    }
  }

 private:
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("tombolo-trainer-files-" + std::to_string(::getpid()));
};

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

TEST_F(Files, RowsStartWhereTheirPositionInTheRunSays) {
  std::string text;
  for (int at = 0; at < 50; ++at) text += static_cast<char>(at);
  write("text", text);
  TextFile file(path("text"), 8);
  std::array<std::int32_t, 8> tokens{}, targets{};
  for (std::uint64_t step : {0, 1, 2, 9})
    for (int row = 0; row < 3; ++row) {
      file.read_row(step, 3, row, 256, tokens, targets);
      const auto start =
          static_cast<std::int32_t>((step * 3 + static_cast<std::uint64_t>(row)) * 8 % (50 - 8 - 1));
      for (std::int32_t at = 0; at < 8; ++at) {
        EXPECT_EQ(tokens[static_cast<std::size_t>(at)], start + at);
        EXPECT_EQ(targets[static_cast<std::size_t>(at)], start + at + 1);
      }
    }
}

TEST_F(Files, TextThatCannotBeUsedIsRefusedByName) {
  expect_error([&] { TextFile(path("none"), 8); }, {"none", "No such file"});
  expect_error([&] { TextFile(path(""), 8); }, {"not a regular file"});
  write("short", "123456789");
  expect_error([&] { TextFile(path("short"), 8); }, {"short", "9 bytes", "at least 10"});
  write("high", std::string(20, '\xff'));
  std::array<std::int32_t, 8> tokens{}, targets{};
  TextFile file(path("high"), 8);
  expect_error([&] { file.read_row(0, 1, 0, 128, tokens, targets); },
               {"high", "byte 255", "vocabulary of 128"});
}

TEST_F(Files, ACheckpointReadBackByAnyStagesHoldsWhatWasWritten) {
  const Shape shape = padded_shape();
  std::vector<float> all(parameter_count(shape));
  for (std::size_t at = 0; at < all.size(); ++at) all[at] = static_cast<float>(at);
  write_checkpoint(path("model"), shape, all);
  EXPECT_EQ(read_checkpoint_shape(path("model")), shape);
  for (auto [first, layers] : {std::pair{0, 3}, std::pair{0, 1}, std::pair{1, 1}, std::pair{1, 2}}) {
    const StageParameters parameters(shape, first, layers);
    std::vector<float> arena(parameters.size());
    read_checkpoint(path("model"), parameters, arena);
    for (const Slice& slice : parameters.slices())
      for (std::size_t at = 0; at < slice.elements; ++at)
        ASSERT_EQ(arena[slice.offset + at], static_cast<float>(slice.position + at));
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path("")), {}), 1)
      << "a temporary file is left";
}

TEST_F(Files, ACheckpointsBytesAreLlmCs) {
  const Shape shape = padded_shape();
  std::vector<float> all(parameter_count(shape));
  all[0] = 1.5F;
  write_checkpoint(path("model"), shape, all);
  const std::string bytes = bytes_of("model");
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

TEST_F(Files, AMalformedCheckpointIsRefusedByName) {
  const Shape shape = padded_shape();
  write_checkpoint(path("good"), shape, std::vector<float>(parameter_count(shape)));
  const std::string good = bytes_of("good");
  auto with = [&](std::size_t index, std::int32_t value) {
    std::string bytes = good;
    std::memcpy(bytes.data() + 4 * index, &value, sizeof value);
    write("bad", bytes);
    return [this] { read_checkpoint_shape(path("bad")); };
  };
  expect_error([&] { read_checkpoint_shape(path("none")); }, {"none", "No such file"});
  write("bad", "short");
  expect_error([&] { read_checkpoint_shape(path("bad")); }, {"bad", "5 bytes"});
  expect_error(with(0, 7), {"magic number 7", "20240326"});
  expect_error(with(1, 5), {"version 5 (bf16)", "version 3"});
  expect_error(with(6, 7), {"width 7 is not a multiple of heads 2"});
  expect_error(with(4, -1), {"layers is -1"});
  expect_error(with(4, 4), {"cut short"});
  write("bad", good.substr(0, good.size() - 1));
  expect_error([&] { read_checkpoint_shape(path("bad")); }, {"cut short"});
  write("bad", good + "x");
  expect_error([&] { read_checkpoint_shape(path("bad")); }, {"not this format"});
}

TEST(InitialValues, HaveGpt2sSpreadAndDoNotDependOnTheLayout) {
  Shape shape = padded_shape();
  shape.width = 64;
  const StageParameters whole(shape, 0, 3), back(shape, 2, 1);
  std::vector<float> all(whole.size()), part(back.size());
  initialize(shape, 3, whole, all);
  initialize(shape, 3, back, part);
  for (const Slice& slice : back.slices()) {
    const Slice& same = whole.find(slice.tensor, slice.layer);
    for (std::size_t at = 0; at < slice.elements; ++at)
      ASSERT_EQ(part[slice.offset + at], all[same.offset + at]);
  }
  auto deviation = [&](Tensor tensor) {
    const Slice& slice = whole.find(tensor, 1);
    double squares = 0;
    for (std::size_t at = 0; at < slice.elements; ++at) squares += std::pow(all[slice.offset + at], 2.0);
    return std::sqrt(squares / static_cast<double>(slice.elements));
  };
  EXPECT_NEAR(deviation(Tensor::kMlpWeight), 0.02, 0.0005);
  EXPECT_NEAR(deviation(Tensor::kMlpProjectionWeight), 0.02 / std::sqrt(6.0), 0.0003);
  EXPECT_EQ(deviation(Tensor::kNorm2Weight), 1.0);
  EXPECT_EQ(deviation(Tensor::kQkvBias), 0.0);
  std::vector<float> other(whole.size());
  initialize(shape, 4, whole, other);
  EXPECT_NE(all, other);
}

}  // namespace
}  // namespace tombolo::trainer
