#include "trainer/model/text_file.h"

#include <gtest/gtest.h>

#include <array>

#include "base/temporary_folder.h"
#include "trainer/testing/expect_refusal.h"

namespace tombolo::trainer {
namespace {

using test::expect_refusal;

TEST(TextFile, RowsStartWhereTheirPositionInTheRunSays) {
  const TemporaryFolder folder;
  std::string text;
  for (int at = 0; at < 50; ++at) text += static_cast<char>(at);
  folder.write("text", text);
  TextFile file(folder.file("text"), 8);
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

TEST(TextFile, ThatCannotBeUsedIsRefusedByName) {
  const TemporaryFolder folder;
  expect_refusal([&] { TextFile(folder.file("none"), 8); }, {"none", "No such file"});
  expect_refusal([&] { TextFile(folder.path().string(), 8); }, {"not a regular file"});
  folder.write("short", "123456789");
  expect_refusal([&] { TextFile(folder.file("short"), 8); }, {"short", "9 bytes", "at least 10"});
  folder.write("high", std::string(20, '\xff'));
  std::array<std::int32_t, 8> tokens{}, targets{};
  TextFile file(folder.file("high"), 8);
  expect_refusal([&] { file.read_row(0, 1, 0, 128, tokens, targets); },
                 {"high", "byte 255", "vocabulary of 128"});
}

}  // namespace
}  // namespace tombolo::trainer
