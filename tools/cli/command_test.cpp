#include "tools/cli/command.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <stdexcept>

#include "base/error.h"

namespace tombolo::tools {
namespace {

class Command : public ::testing::Test {
 protected:
  Command() {
    CLI::App& app = tombolo_.add("go", "Goes", "Example:\n  tombolo go --fast", [this] { return action_(); });
    app.add_flag("--fast", fast_, "Goes fast");
    app.add_option_function<std::string>("--speed", [](const std::string& text) {
      fail(Cause::kInvalidUsage, "--speed: '{}' is not a speed", text);
    });
  }
  /// Runs `tombolo <arguments>`; what it printed is in out_ and err_.
  int run(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "tombolo");
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    int code = tombolo_.run(static_cast<int>(arguments.size()), arguments.data());
    out_ = ::testing::internal::GetCapturedStdout();
    err_ = ::testing::internal::GetCapturedStderr();
    return code;
  }
  CommandLine tombolo_;
  std::function<int()> action_ = [] { return kExitOk; };
  bool fast_ = false;
  std::string out_, err_;
};

TEST_F(Command, RunsTheActionWithItsOptionsFilledIn) {
  bool seen = false;
  action_ = [&] {
    seen = fast_;
    return 7;
  };
  EXPECT_EQ(run({"go", "--fast"}), 7);
  EXPECT_TRUE(seen);
}

TEST_F(Command, PrintsAnErrorWithTheCommandsName) {
  action_ = []() -> int { fail(Cause::kTimeout, "rank {} did not come", 3); };
  EXPECT_EQ(run({"go"}), kExitFailed);
  EXPECT_EQ(err_, "tombolo go: rank 3 did not come\n");
  action_ = []() -> int { fail(Cause::kInvalidUsage, "x.json:1: broken"); };
  EXPECT_EQ(run({"go"}), kExitBadUsage);
  action_ = []() -> int { throw std::logic_error("odd"); };
  EXPECT_EQ(run({"go"}), kExitFailed);
  EXPECT_EQ(out_, "");
}

TEST_F(Command, AnOptionThatReadsItsValueItselfIsReportedLikewise) {
  EXPECT_EQ(run({"go", "--speed", "much"}), kExitBadUsage);
  EXPECT_EQ(err_, "tombolo go: --speed: 'much' is not a speed\n");
}

TEST_F(Command, TellsBadUsageAndSuggests) {
  EXPECT_EQ(run({"goo"}), kExitBadUsage);
  EXPECT_NE(err_.find("did you mean \"go\"?"), std::string::npos) << err_;
  EXPECT_EQ(run({"go", "--slow"}), kExitBadUsage);
  EXPECT_EQ(err_.find("tombolo go: "), 0U) << err_;
  EXPECT_NE(err_.find("--slow"), std::string::npos) << err_;
  EXPECT_EQ(run({}), kExitBadUsage);
  EXPECT_NE(err_.find("Goes"), std::string::npos) << err_;
}

TEST_F(Command, TeachesWithHelp) {
  EXPECT_EQ(run({"--help"}), kExitOk);
  EXPECT_NE(out_.find("Goes"), std::string::npos) << out_;
  EXPECT_EQ(run({"go", "--help"}), kExitOk);
  EXPECT_NE(out_.find("Goes fast"), std::string::npos) << out_;
  EXPECT_NE(out_.find("tombolo go --fast"), std::string::npos) << out_;
  EXPECT_EQ(run({"--version"}), kExitOk);
  EXPECT_EQ(out_.find("tombolo 0."), 0U) << out_;
}

}  // namespace
}  // namespace tombolo::tools
