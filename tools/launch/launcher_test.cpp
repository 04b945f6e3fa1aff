// What ranks get on emulated hosts, on loopback; tests/process/launcher_test.cpp has ranks of this machine.
#include "tools/launch/launcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tools/cli/testing.h"

namespace tombolo::tools {
namespace {

class LauncherOnHosts : public ::testing::Test {
 protected:
  LaunchOptions script_on(std::vector<std::string> hosts, const std::string& text) const {
    LaunchOptions options;
    options.ranks = static_cast<int>(hosts.size());
    options.program = {"sh", "-c", text};
    options.output = Output::kSilent;
    options.timeout = std::chrono::seconds(60);  // so that a test that hangs fails
    options.emulation = emulation_.get();
    options.rank_hosts = std::move(hosts);
    return options;
  }
  /// "rank|line" of every rank, sorted.
  static std::vector<std::string> lines_by_rank(LaunchOptions options) {
    std::vector<std::string> lines;
    options.on_line = [&](int rank, std::string_view line) {
      lines.push_back(fmt::format("{}|{}", rank, line));
    };
    const LaunchResult result = launch(options);
    EXPECT_EQ(result.exit_code, 0) << result.message;
    std::ranges::sort(lines);
    return lines;
  }
  std::unique_ptr<emulation::Emulation> emulation_ = emulation::Emulation::start(
      emulation::Spec::from_text("holmes:fast=800mbit,slow=80mbit"), {emulation::Mode::kLoopback, {}});
};

TEST_F(LauncherOnHosts, TellsEachRankItsHostAndItsShareOfTheNics) {
  EXPECT_EQ(lines_by_rank(script_on({"b1", "a0", "b1"},
                                    "echo $TOMBOLO_HOST $LOCAL_RANK/$LOCAL_WORLD_SIZE $TOMBOLO_NIC_LIMITS")),
            (std::vector<std::string>{"0|b1 0/2 fast0=400000000,eth0=40000000",
                                      "1|a0 0/1 fast0=800000000,eth0=80000000",
                                      "2|b1 1/2 fast0=400000000,eth0=40000000"}));
}

TEST_F(LauncherOnHosts, LetsThemMeetAtRankZeroOnTheFirstFabricOfAllTheirHosts) {
  EXPECT_EQ(lines_by_rank(script_on({"b1", "a0"}, "echo $MASTER_ADDR")),
            (std::vector<std::string>{"0|127.77.1.4", "1|127.77.1.4"}))
      << "over Ethernet";
  EXPECT_EQ(lines_by_rank(script_on({"b1", "b0"}, "echo $MASTER_ADDR")),
            (std::vector<std::string>{"0|127.77.1.4", "1|127.77.1.4"}));
}

TEST_F(LauncherOnHosts, HandsThemTheClusterFileAndRemovesIt) {
  const auto before = std::distance(std::filesystem::directory_iterator(emulation_->directory()), {});
  auto options = script_on({"a0"}, "grep -c '\"name\": \"b1\"' $TOMBOLO_CLUSTER; echo $TOMBOLO_CLUSTER");
  const auto own = lines_by_rank(options);
  ASSERT_EQ(own.size(), 2U);
  EXPECT_TRUE(own[0].starts_with("0|" + emulation_->directory() + "/cluster-")) << own[0];
  EXPECT_EQ(own[1], "0|1");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(emulation_->directory()), {}), before);
  options.cluster = emulation_->cluster();
  options.cluster->hosts[3].name = "b9";
  options.program[2] = "grep -c '\"name\": \"b9\"' $TOMBOLO_CLUSTER";
  EXPECT_EQ(lines_by_rank(options), std::vector<std::string>{"0|1"}) << "the one that was given instead";
}

TEST_F(LauncherOnHosts, FillsHostsInBlockOrderWhereNoneIsSaid) {
  auto options = script_on({}, "echo $TOMBOLO_HOST");
  options.ranks = 2;
  EXPECT_EQ(lines_by_rank(options), (std::vector<std::string>{"0|a0", "1|a1"}));
}

TEST_F(LauncherOnHosts, WhatTheCallerSetsGoesBeforeAllElse) {
  auto options = script_on({"a0"}, "echo $TOMBOLO_HOST $RANK");
  options.environment = {{"TOMBOLO_HOST", "mine"}, {"RANK", "seven"}};
  EXPECT_EQ(lines_by_rank(options), std::vector<std::string>{"0|mine seven"});
}

TEST_F(LauncherOnHosts, NamesTheHostOfARankThatFails) {
  const LaunchResult result =
      launch(script_on({"a0", "b0"}, "[ $RANK = 0 ] || { echo out of disk; exit 4; }"));
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_EQ(result.failed_rank, 1);
  EXPECT_EQ(result.message, "rank 1 on host b0 ended with exit code 4; its last lines:\n    out of disk");
  EXPECT_EQ(result.last_lines, std::vector<std::string>{"out of disk"});
}

TEST_F(LauncherOnHosts, KeepsTheLastTenLinesOfARankThatFails) {
  const LaunchResult result =
      launch(script_on({"a0"}, "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo $i; done; exit 1"));
  ASSERT_EQ(result.last_lines.size(), 10U);
  EXPECT_EQ(result.last_lines.front(), "3");
  EXPECT_EQ(result.last_lines.back(), "12");
}

TEST_F(LauncherOnHosts, RefusesHostsThatDoNotFit) {
  EXPECT_MENTIONS(error_of([&] { launch(script_on({"a0", "z9"}, "true")); }), "has no host 'z9'");
  auto options = script_on({"a0", "a1"}, "true");
  options.ranks = 3;
  EXPECT_MENTIONS(error_of([&] { launch(options); }), "2 hosts are given for 3 ranks");
  options.emulation = nullptr;
  EXPECT_MENTIONS(error_of([&] { launch(options); }), "an order of ranks on hosts needs an emulation");
  options.ranks = 0;
  EXPECT_MENTIONS(error_of([&] { launch(options); }), "0 ranks: at least one is needed");
  options.ranks = 1;
  options.program.clear();
  EXPECT_MENTIONS(error_of([&] { launch(options); }), "no program was given to start");
}

TEST_F(LauncherOnHosts, PrintsWhatIsNotHidden) {
  auto options = script_on({"a0", "b0"}, "echo progress; echo fact $RANK");
  options.output = Output::kRankZero;
  options.hide = [](int, std::string_view line) { return line == "progress"; };
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(launch(options).exit_code, 0);
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "fact 0\n");
  options.hide = {};
  options.output = Output::kPrefixed;
  options.ranks = 1;
  options.rank_hosts = {"a0"};
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(launch(options).exit_code, 0);
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "[0] progress\n[0] fact 0\n");
}

TEST(OwnProgram, IsTheFileThatRuns) {
  EXPECT_EQ(own_program(), std::filesystem::read_symlink("/proc/self/exe").string());
}

}  // namespace
}  // namespace tombolo::tools
