#include "tools/process/subprocess.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <stdexcept>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "tools/cli/testing.h"

namespace tombolo::tools {
namespace {

constexpr auto kLong = std::chrono::seconds(60);

Finished run_shell(const std::string& script, std::string_view input = {}, Duration deadline = kLong) {
  return run_program({"/bin/sh", "-c", script}, input, deadline);
}

TEST(RunProgram, GivesInputAndReturnsBothOutputsAndTheExitCode) {
  const Finished finished = run_shell("cat; echo error >&2; exit 3", "one\ntwo");
  EXPECT_EQ(finished.output, "one\ntwo");
  EXPECT_EQ(finished.error, "error\n");
  EXPECT_EQ(finished.exit_code, 3);
}

TEST(RunProgram, TakesMoreInputAndOutputThanAPipeHolds) {
  const std::string much(300'000, 'x');
  EXPECT_EQ(run_shell("cat", much).output, much);
}

TEST(RunProgram, TellsASignalAs128PlusItsNumber) {
  EXPECT_EQ(run_shell("kill -SEGV $$").exit_code, 128 + SIGSEGV);
}

TEST(RunProgram, KillsAProgramThatPassesItsDeadline) {
  const Finished finished = run_shell("echo begun; exec sleep 600", {}, std::chrono::milliseconds(200));
  EXPECT_EQ(finished.exit_code, 124);
}

TEST(RunProgram, RunsTheGivenFunctionInTheChildBeforeTheProgram) {
  EXPECT_EQ(run_program({"/bin/pwd"}, {}, kLong, [] { return ::chdir("/proc/self") == 0 ? 0 : 1; })
                .output.substr(0, 6),
            "/proc/");
  EXPECT_EQ(run_program({"/bin/pwd"}, {}, kLong, [] { return EPERM; }).exit_code, 127)
      << "it ran nevertheless";
}

TEST(RunProgram, AProgramThatIsNotThereHasAShellsExitCode) {
  EXPECT_EQ(run_program({"/no/such/program"}, {}, kLong).exit_code, 127);
}

TEST(RunForked, ReturnsTheTextAndWhatWasPrintedAndLeavesThisProcessAlone) {
  int touched = 0;
  const Finished finished = run_forked(
      [&] {
        touched = 1;
        std::puts("printed");
        return std::string(300'000, 'x');
      },
      kLong);
  EXPECT_EQ(finished.exit_code, 0);
  EXPECT_EQ(finished.output, std::string(300'000, 'x'));
  EXPECT_EQ(finished.error, "printed\n");
  EXPECT_EQ(touched, 0);
}

TEST(RunForked, TellsAnExceptionACrashAndSilence) {
  const Finished thrown =
      run_forked([]() -> std::string { throw std::runtime_error("no such thing"); }, kLong);
  EXPECT_EQ(thrown.exit_code, 1);
  EXPECT_EQ(thrown.error, "no such thing");
  const auto crash = [] {
    ::raise(SIGKILL);
    return std::string();
  };
  EXPECT_EQ(run_forked(crash, kLong).exit_code, 128 + SIGKILL);
  const auto silence = [] {
    ::pause();
    return std::string();
  };
  EXPECT_EQ(run_forked(silence, std::chrono::milliseconds(200)).exit_code, 124);
}

TEST(FindProgram, LooksInThePathAndTakesAPathAsItIs) {
  ASSERT_TRUE(find_program("sh"));
  EXPECT_TRUE(find_program("sh")->ends_with("/sh"));
  EXPECT_EQ(find_program("./here"), "./here");
  EXPECT_FALSE(find_program("no-program-has-this-name"));
}

TEST(FindProgram, PassesOverFoldersAndFilesThatCannotBeExecuted) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "first" / "tool");
  folder.write("second/tool", "no program");
  folder.write("third/tool", "#!/bin/sh\n");
  std::filesystem::permissions(folder.path() / "third" / "tool", std::filesystem::perms::owner_all);
  const TemporaryVariable path(
      "PATH", folder.file("first") + ":" + folder.file("second") + "::" + folder.file("third"));
  EXPECT_EQ(find_program("tool"), folder.file("third/tool"));
  EXPECT_FALSE(is_executable(folder.file("first/tool")));
  EXPECT_FALSE(is_executable(folder.file("second/tool")));
  EXPECT_FALSE(is_executable(folder.file("fourth/tool")));
}

TEST(ExitCode, IsThatOfWaitOr128PlusTheSignal) {
  EXPECT_EQ(exit_code_of(W_EXITCODE(5, 0)), 5);
  EXPECT_EQ(exit_code_of(W_EXITCODE(0, SIGTERM)), 128 + SIGTERM);
}

}  // namespace
}  // namespace tombolo::tools
