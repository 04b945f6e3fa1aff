#include "tools/cli/progress_bar.h"

#include <gtest/gtest.h>

#include <string>

namespace tombolo::tools {
namespace {

std::string drawn(int done, int total) {
  ::testing::internal::CaptureStderr();
  draw_progress("probing", done, total);
  return ::testing::internal::GetCapturedStderr();
}

TEST(ProgressBar, IsAsLongWhateverIsDone) {
  EXPECT_EQ(drawn(0, 3), "\rprobing [" + std::string(30, '.') + "] 0/3");
  EXPECT_EQ(drawn(1, 3), "\rprobing [" + std::string(10, '#') + std::string(20, '.') + "] 1/3");
  EXPECT_EQ(drawn(2, 7), "\rprobing [" + std::string(8, '#') + std::string(22, '.') + "] 2/7");
}

TEST(ProgressBar, EndsItsLineWithTheLastStep) {
  EXPECT_EQ(drawn(3, 3), "\rprobing [" + std::string(30, '#') + "] 3/3\n");
}

TEST(ProgressBar, DrawsNothingOfNoSteps) {
  EXPECT_EQ(drawn(0, 0), "");
}

TEST(ProgressBar, NeedsATerminal) {
  ::testing::internal::CaptureStderr();  // a file
  EXPECT_FALSE(can_draw_progress());
  ::testing::internal::GetCapturedStderr();
}

}  // namespace
}  // namespace tombolo::tools
