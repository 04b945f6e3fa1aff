#include "base/limited_warning.h"

#include <gtest/gtest.h>

#include <vector>

namespace tombolo {
namespace {

using std::chrono::seconds;

class LimitedWarningTest : public ::testing::Test {
 protected:
  void write(int times) {
    for (int i = 0; i < times; ++i) warning_.write(log_, "stranger {}", next_++);
  }

  FakeClock clock_;
  std::vector<std::string> lines_;
  Log log_{LogLevel::kWarning, [this](LogLevel, std::string_view line) { lines_.emplace_back(line); }};
  LimitedWarning warning_{clock_, 3, seconds(10)};
  int next_ = 0;
};

TEST_F(LimitedWarningTest, WritesTheFirstFewThenOnePerIntervalWithTheNumberLeftOut) {
  write(90'000);
  EXPECT_EQ(lines_, (std::vector<std::string>{"stranger 0", "stranger 1", "stranger 2"}));
  clock_.advance(seconds(9));
  write(1);
  EXPECT_EQ(lines_.size(), 3U);
  clock_.advance(seconds(1));
  write(2);
  ASSERT_EQ(lines_.size(), 4U);
  EXPECT_EQ(lines_.back(), "stranger 90001 (89998 more warnings like this one were left out before it)");
  clock_.advance(seconds(10));
  write(1);
  EXPECT_EQ(lines_.back(), "stranger 90003 (1 more warnings like this one were left out before it)");
}

TEST_F(LimitedWarningTest, AFloodOfAnyLengthGivesOneLinePerInterval) {
  for (int tenths = 0; tenths < 1000; ++tenths) {
    write(100);
    clock_.advance(std::chrono::milliseconds(100));
  }
  EXPECT_EQ(lines_.size(), 3U + 9U);
}

TEST_F(LimitedWarningTest, TheFirstFewAreFreeAgainAfterAQuietWhile) {
  write(5);
  clock_.advance(seconds(1000));
  write(5);
  EXPECT_EQ(lines_.size(), 6U);
  EXPECT_EQ(lines_[3], "stranger 5 (2 more warnings like this one were left out before it)");
  EXPECT_EQ(lines_[5], "stranger 7");
}

TEST_F(LimitedWarningTest, DoesNotCountWhatTheLogWouldNotShow) {
  const Log errors_only(LogLevel::kError, [](LogLevel, std::string_view) {});
  for (int i = 0; i < 100; ++i) warning_.write(errors_only, "stranger");
  write(1);
  EXPECT_EQ(lines_, std::vector<std::string>{"stranger 0"});
}

}  // namespace
}  // namespace tombolo
