#include "net_plugin/nccl_log.h"

#include <gtest/gtest.h>

#include <cstdarg>
#include <cstdio>
#include <string>
#include <vector>

namespace tombolo::net_plugin {
namespace {

struct Logged {
  abi::ncclDebugLogLevel level;
  unsigned long flags;
  std::string text;
};
std::vector<Logged> logged;

void take_line(abi::ncclDebugLogLevel level, unsigned long flags, const char*, int, const char* format, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  logged.push_back({level, flags, text});
}

TEST(NcclLog, LevelsAndSubsystemsAreNccls) {
  logged.clear();
  const Log log = nccl_log(take_line, LogLevel::kTrace);
  log.error("e {}", 1);
  log.warning("w");
  log.info("i 100%");
  log.trace("t");
  ASSERT_EQ(logged.size(), 4U);
  EXPECT_EQ(logged[0].level, abi::NCCL_LOG_WARN);
  EXPECT_EQ(logged[1].level, abi::NCCL_LOG_WARN);
  EXPECT_EQ(logged[2].level, abi::NCCL_LOG_INFO);
  EXPECT_EQ(logged[3].level, abi::NCCL_LOG_TRACE);
  EXPECT_EQ(logged[0].flags, ~0UL) << "a warning belongs to every subsystem";
  EXPECT_EQ(logged[2].flags, 0x11UL) << "INIT and NET";
  EXPECT_EQ(logged[0].text, "NET/Tombolo : e 1");
  EXPECT_EQ(logged[2].text, "NET/Tombolo : i 100%") << "the text is no format";
}

TEST(NcclLog, TraceLinesAreMadeAtLevelTraceOnlyAndInfoAlways) {
  logged.clear();
  const Log log = nccl_log(take_line, LogLevel::kError);
  log.info("i");
  log.trace("t");
  ASSERT_EQ(logged.size(), 1U) << "NCCL_DEBUG decides about all but trace lines";
  EXPECT_EQ(logged[0].text, "NET/Tombolo : i");
}

}  // namespace
}  // namespace tombolo::net_plugin
