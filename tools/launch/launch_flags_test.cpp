#include "tools/launch/launch_flags.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "tools/cli/testing.h"

namespace tombolo::tools {
namespace {

LaunchFlags flags_of(const std::string& line) {
  LaunchFlags flags;
  CLI::App app;
  flags.add_to(app);
  app.parse(line);
  return flags;
}

/// With what it says on standard error kept to itself.
PreparedLaunch prepared_by(const std::string& line) {
  ::testing::internal::CaptureStderr();
  try {
    PreparedLaunch prepared = prepare_launch(flags_of(line), {"true", "x"});
    EXPECT_EQ(::testing::internal::GetCapturedStderr().empty(), prepared.emulation == nullptr);
    return prepared;
  } catch (...) {
    ::testing::internal::GetCapturedStderr();
    throw;
  }
}

TEST(LaunchFlags, WithoutAnyThisMachineRunsOneRank) {
  EXPECT_FALSE(flags_of("").any());
  const PreparedLaunch prepared = prepared_by("");
  EXPECT_EQ(prepared.options.ranks, 1);
  EXPECT_EQ(prepared.options.program, (std::vector<std::string>{"true", "x"}));
  EXPECT_EQ(prepared.options.emulation, nullptr);
  EXPECT_EQ(prepared.options.output, Output::kPrefixed);
  EXPECT_FALSE(prepared.options.timeout);
  EXPECT_TRUE(prepared.options.environment.empty());
}

TEST(LaunchFlags, BecomeTheLaunchersOptions) {
  const PreparedLaunch prepared =
      prepared_by("-n 3 --quiet --timeout 1.5 --routing shared --env A=1 --env B=x=y --env C=");
  EXPECT_EQ(prepared.options.ranks, 3);
  EXPECT_EQ(prepared.options.output, Output::kRankZero);
  EXPECT_EQ(prepared.options.timeout, std::chrono::milliseconds(1500));
  EXPECT_EQ(prepared.options.environment,
            (std::vector<std::pair<std::string, std::string>>{
                {"TOMBOLO_ROUTING", "shared"}, {"A", "1"}, {"B", "x=y"}, {"C", ""}}));
}

TEST(LaunchFlags, EitherRanksOrAnEmulationStartsRanks) {
  EXPECT_TRUE(flags_of("-n 1").any());
  EXPECT_TRUE(flags_of("--emulate holmes").any());
  EXPECT_FALSE(flags_of("--quiet --order block").any());
}

TEST(LaunchFlags, AnEmulationHasARankPerDeviceUnlessToldOtherwise) {
  const std::string loopback = "--emulate holmes --emulation-mode loopback ";
  PreparedLaunch prepared = prepared_by(loopback);
  ASSERT_NE(prepared.emulation, nullptr);
  EXPECT_EQ(prepared.options.emulation, prepared.emulation.get());
  EXPECT_EQ(prepared.options.ranks, 4);
  EXPECT_EQ(prepared.options.rank_hosts, (std::vector<std::string>{"a0", "a1", "b0", "b1"}));
  prepared = prepared_by(loopback + "-n 2 --order interleaved");
  EXPECT_EQ(prepared.options.ranks, 2);
  EXPECT_EQ(prepared.options.rank_hosts, (std::vector<std::string>{"a0", "b0"}));
}

TEST(LaunchFlags, SayWhatIsWrong) {
  EXPECT_MENTIONS(error_of([] { prepared_by("--env A"); }), "--env 'A': expected NAME=VALUE");
  EXPECT_MENTIONS(error_of([] { prepared_by("--env =1"); }), "--env '=1': expected NAME=VALUE");
  EXPECT_MENTIONS(error_of([] { prepared_by("-n 2 --order block"); }), "it needs --emulate");
  EXPECT_MENTIONS(error_of([] { prepared_by("--emulate moon"); }), "there is no emulation 'moon'");
  EXPECT_MENTIONS(
      error_of([] { prepared_by("--emulate holmes --emulation-mode loopback -n 3 --order a0,b0"); }),
      "2 hosts are named for 3 ranks");
  EXPECT_MENTIONS(
      error_of([] { prepared_by("--emulate two-clusters --emulation-mode loopback"); }, Cause::kUnsupported),
      "needs network namespaces");
  for (const char* line :
       {"-n 0", "-n 1025", "--routing best", "--timeout 0", "--timeout nan", "--emulation-mode x"})
    EXPECT_THROW(flags_of(line), CLI::ValidationError) << line;
}

TEST(LaunchFlags, AFailureIsReportedUnderTheCommandsName) {
  LaunchOptions options;
  options.program = {"sh", "-c", "exit 7"};
  options.output = Output::kSilent;
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(launch_and_report(options, "perf"), 7);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "tombolo perf: rank 0 ended with exit code 7\n");
  options.program = {"true"};
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(launch_and_report(options, "perf"), 0);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace tombolo::tools
