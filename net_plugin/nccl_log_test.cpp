#include "net_plugin/nccl_log.h"

#include <gtest/gtest.h>

#include <cstdarg>
#include <cstdio>
#include <string>
#include <vector>

namespace tombolo::net_plugin {
namespace {

struct NcclLine {
  abi::ncclDebugLogLevel level;
  unsigned long flags;
  std::string text;
};
std::vector<NcclLine> nccl_lines;

void take_line(abi::ncclDebugLogLevel level, unsigned long flags, const char*, int, const char* format, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  nccl_lines.push_back({level, flags, text});
}

TEST(NcclLog, LevelsAndSubsystemsAreNccls) {
  nccl_lines.clear();
  const Log log = nccl_log(take_line, LogLevel::kTrace);
  log.error("e {}", 1);
  log.warning("w");
  log.info("i 100%");
  log.trace("t");
  ASSERT_EQ(nccl_lines.size(), 4U);
  EXPECT_EQ(nccl_lines[0].level, abi::NCCL_LOG_WARN);
  EXPECT_EQ(nccl_lines[1].level, abi::NCCL_LOG_WARN);
  EXPECT_EQ(nccl_lines[2].level, abi::NCCL_LOG_INFO);
  EXPECT_EQ(nccl_lines[3].level, abi::NCCL_LOG_TRACE);
  EXPECT_EQ(nccl_lines[0].flags, ~0UL) << "a warning belongs to every subsystem";
  EXPECT_EQ(nccl_lines[2].flags, 0x11UL) << "INIT and NET";
  EXPECT_EQ(nccl_lines[0].text, "NET/Tombolo : e 1");
  EXPECT_EQ(nccl_lines[2].text, "NET/Tombolo : i 100%") << "the text is no format";
}

TEST(NcclLog, TraceLinesAreMadeAtLevelTraceOnlyAndInfoAlways) {
  nccl_lines.clear();
  const Log log = nccl_log(take_line, LogLevel::kError);
  log.info("i");
  log.trace("t");
  ASSERT_EQ(nccl_lines.size(), 1U) << "NCCL_DEBUG decides about all but trace lines";
  EXPECT_EQ(nccl_lines[0].text, "NET/Tombolo : i");
}

}  // namespace
}  // namespace tombolo::net_plugin
