#include "base/log.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tombolo {
namespace {

TEST(Log, PassesOnWhatIsAtOrAboveItsLevel) {
  std::vector<std::string> lines;
  const Log log(LogLevel::kWarning, [&](LogLevel level, std::string_view text) {
    lines.push_back(std::string(log_level_name(level)) + " " + std::string(text));
  });
  log.error("{} of {}", 1, 2);
  log.warning("w");
  log.info("i");
  log.trace("t");
  EXPECT_EQ(lines, (std::vector<std::string>{"error 1 of 2", "warning w"}));
  EXPECT_TRUE(log.enabled(LogLevel::kError));
  EXPECT_FALSE(log.enabled(LogLevel::kInfo));
}

TEST(Log, IsSilentByDefault) {
  const Log log;
  EXPECT_FALSE(log.enabled(LogLevel::kError));
  log.error("goes nowhere");
}

TEST(Log, LinesOnStandardErrorCannotMoveATerminalsCursor) {
  testing::internal::CaptureStderr();
  Log::to_stderr(LogLevel::kInfo).info("peer says {}", "\x1b[2J");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "tombolo info: peer says \\x1b[2J\n");
}

}  // namespace
}  // namespace tombolo
