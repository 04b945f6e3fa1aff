#include "trainer/data/rows.h"

#include <gtest/gtest.h>

#include <array>

#include "base/temporary_folder.h"
#include "trainer/data/text_file.h"
#include "trainer/testing/expect_refusal.h"

namespace tombolo::trainer {
namespace {

using test::expect_refusal;

Rows rows_of(const std::string& path, int context, RowOrder order = {}) {
  return {std::make_unique<TextFile>(std::vector{path}), context, order};
}

std::string counting(int bytes) {
  std::string text;
  for (int at = 0; at < bytes; ++at) text += static_cast<char>(at);
  return text;
}

TEST(Rows, StartWhereTheirPositionInTheRunSays) {
  const TemporaryFolder folder;
  folder.write("text", counting(50));
  Rows rows = rows_of(folder.file("text"), 8);
  std::array<std::int32_t, 8> tokens{}, targets{};
  for (std::uint64_t step : {0, 1, 2, 9})
    for (int row = 0; row < 3; ++row) {
      rows.read(step, 3, row, 256, tokens, targets);
      const auto start =
          static_cast<std::int32_t>((step * 3 + static_cast<std::uint64_t>(row)) * 8 % (50 - 8 - 1));
      for (std::int32_t at = 0; at < 8; ++at) {
        EXPECT_EQ(tokens[static_cast<std::size_t>(at)], start + at);
        EXPECT_EQ(targets[static_cast<std::size_t>(at)], start + at + 1);
      }
    }
}

TEST(Rows, ShuffledOnesAreEachSeenOnceInAnEpoch) {
  const TemporaryFolder folder;
  folder.write("text", counting(8 * 12 + 5));
  Rows rows = rows_of(folder.file("text"), 8, {.shuffle_seed = 3});
  ASSERT_EQ(rows.count(), 12U);
  std::array<std::int32_t, 8> tokens{}, targets{};
  std::array<std::array<int, 12>, 2> orders{};
  for (std::uint64_t epoch : {0, 1}) {
    std::array<int, 12> seen{};
    for (std::uint64_t number = 0; number < 12; ++number) {  // 3 steps of 4 rows
      rows.read(epoch * 3 + number / 4, 4, static_cast<int>(number % 4), 256, tokens, targets);
      EXPECT_EQ(tokens[0] % 8, 0);
      EXPECT_EQ(targets[7], tokens[0] + 8);
      ++seen.at(static_cast<std::size_t>(tokens[0] / 8));
      orders.at(epoch).at(number) = tokens[0] / 8;
    }
    for (const int times : seen) EXPECT_EQ(times, 1);
  }
  EXPECT_NE(orders[0], orders[1]);
}

TEST(Rows, OfDataThatCannotBeUsedAreRefusedByName) {
  const TemporaryFolder folder;
  expect_refusal([&] { rows_of(folder.file("none"), 8); }, {"none", "No such file"});
  expect_refusal([&] { rows_of(folder.path().string(), 8); }, {"not a regular file"});
  folder.write("short", "123456789");
  expect_refusal([&] { rows_of(folder.file("short"), 8); }, {"short", "9 bytes", "at least 10"});
  folder.write("high", std::string(20, '\xff'));
  std::array<std::int32_t, 8> tokens{}, targets{};
  Rows rows = rows_of(folder.file("high"), 8);
  expect_refusal([&] { rows.read(0, 1, 0, 128, tokens, targets); },
                 {"high", "byte 255", "vocabulary of 128"});
}

}  // namespace
}  // namespace tombolo::trainer
