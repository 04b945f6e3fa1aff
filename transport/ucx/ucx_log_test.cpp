#include "transport/ucx/ucx_log.h"

#include <gtest/gtest.h>
#include <ucs/debug/log_def.h>

#include <cstdlib>

#include "transport/testing/test_messages.h"
#include "transport/ucx/ucx_functions.h"

namespace tombolo::transport::ucx {
namespace {

class UcxLog : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string problem = test::why_no_ucx(); !problem.empty()) GTEST_SKIP() << problem;
    if (std::getenv("UCX_LOG_LEVEL") != nullptr || std::getenv("UCX_LOG_FILE") != nullptr)
      GTEST_SKIP() << "the environment wants UCX to write its log itself";
    std::string problem;
    functions_ = UcxFunctions::load(&problem);
    if (!functions_->ucs.find("ucs_log_dispatch", dispatch_))
      GTEST_SKIP() << "libucs has no ucs_log_dispatch";
  }
  void TearDown() override {
    if (functions_) take_log_of(functions_->ucs, Log());
  }
  Log log_of(LogLevel most, std::string& text) {
    return {most, [&text](LogLevel level, std::string_view line) {
              text += fmt::format("{}: {}\n", log_level_name(level), line);
            }};
  }
  template <typename... Values>
  void say(ucs_log_level_t level, const char* format, Values... values) {
    ucs_log_component_config_t component{};
    component.log_level = UCS_LOG_LEVEL_TRACE;
    dispatch_("file.c", 1, "function", level, &component, format, values...);
  }
  std::shared_ptr<const UcxFunctions> functions_;
  decltype(ucs_log_dispatch)* dispatch_ = nullptr;
};

TEST_F(UcxLog, ErrorsBecomeInfoAndTheRestTrace) {
  std::string text;
  take_log_of(functions_->ucs, log_of(LogLevel::kTrace, text));
  testing::internal::CaptureStdout();
  say(UCS_LOG_LEVEL_ERROR, "no route to %s after %d tries", "b0", 3);
  say(UCS_LOG_LEVEL_WARN, "odd");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "") << "UCX would print them itself";
  EXPECT_EQ(text, "info: UCX: no route to b0 after 3 tries\ntrace: UCX: odd\n");
}

TEST_F(UcxLog, WhatTheLogDoesNotWantIsDropped) {
  std::string text;
  take_log_of(functions_->ucs, log_of(LogLevel::kInfo, text));
  say(UCS_LOG_LEVEL_WARN, "odd");
  EXPECT_EQ(text, "");
  say(UCS_LOG_LEVEL_FATAL, "worse");
  EXPECT_EQ(text, "info: UCX: worse\n");
}

TEST_F(UcxLog, TheLastLogCountsAndEachLineComesOnce) {
  std::string first, second;
  take_log_of(functions_->ucs, log_of(LogLevel::kInfo, first));
  take_log_of(functions_->ucs, log_of(LogLevel::kInfo, second));
  say(UCS_LOG_LEVEL_ERROR, "once");
  EXPECT_EQ(first, "");
  EXPECT_EQ(second, "info: UCX: once\n");
}

TEST_F(UcxLog, LongLinesAreCutAndNothingElse) {
  std::string text;
  take_log_of(functions_->ucs, log_of(LogLevel::kInfo, text));
  const std::string line(10'000, 'x');
  say(UCS_LOG_LEVEL_ERROR, "%s", line.c_str());
  EXPECT_EQ(text, "info: UCX: " + std::string(511, 'x') + "\n");
}

}  // namespace
}  // namespace tombolo::transport::ucx
