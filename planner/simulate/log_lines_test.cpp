#include "planner/simulate/log_lines.h"

#include <gtest/gtest.h>

#include <sstream>
#include <utility>

namespace tombolo::planner {
namespace {

using NumberedLines = std::vector<std::pair<std::string, std::uint64_t>>;

NumberedLines lines_of(const std::string& text, bool* unfinished = nullptr) {
  std::istringstream log(text);
  LogLines lines(log);
  NumberedLines all;
  for (std::string line; lines.next(line);) all.emplace_back(line, lines.number());
  if (unfinished) *unfinished = lines.unfinished();
  return all;
}

TEST(LogLines, EndAtNewlinesAndAtCarriageReturnsAndAreNumberedByNewlines) {
  bool unfinished = true;
  EXPECT_EQ(lines_of("a\nb\rc\n\nd\r\n", &unfinished),
            (NumberedLines{{"a", 1}, {"b", 2}, {"c", 2}, {"", 3}, {"d", 4}, {"", 4}}));
  EXPECT_FALSE(unfinished);
  EXPECT_TRUE(lines_of("").empty());
}

TEST(LogLines, LeaveOutALastLineWithoutAnEnd) {
  bool unfinished = false;
  EXPECT_EQ(lines_of("a\nelapsed: 43", &unfinished), (NumberedLines{{"a", 1}}));
  EXPECT_TRUE(unfinished);
}

TEST(LogLines, ComeWithoutColoursAndControlCharacters) {
  EXPECT_EQ(lines_of("\033[31mstep:\t 1 \033[38;2;180;60;0mloss\033[39m\a\n"),
            (NumberedLines{{"step:  1 loss", 1}}));
  EXPECT_EQ(lines_of(std::string("a\0b\033", 4) + "\n"), (NumberedLines{{"ab", 1}}));
  EXPECT_EQ(lines_of("x\033[12\n"), (NumberedLines{{"x", 1}})) << "a sequence that the line ends";
}

TEST(LogLines, AreCutWhereTheyAreLong) {
  constexpr std::size_t kLong = 1'000'000, kKept = 65'536;
  const NumberedLines lines = lines_of(std::string(kLong, 'x') + "\nnext\n");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].first, std::string(kKept, 'x'));
  EXPECT_EQ(lines[1], (NumberedLines::value_type{"next", 2}));
}

}  // namespace
}  // namespace tombolo::planner
