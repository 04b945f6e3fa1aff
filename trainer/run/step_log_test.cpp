#include "trainer/run/step_log.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/temporary_folder.h"
#include "trainer/testing/faulty_files.h"

namespace tombolo::trainer {
namespace {

StepReport report_of(int step) {
  StepReport report;
  report.step = step;
  report.loss = 1.0 / (step + 3);
  return report;
}

/// "0 1 2": the steps of the log's lines.
std::string steps_in(const std::string& text) {
  std::string steps;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    steps += (steps.empty() ? "" : " ") + std::to_string(Json::parse(line)["step"].get<int>());
  return steps;
}

class StepLogs : public testing::Test {
 protected:
  FileSystem files_;
};

TEST_F(StepLogs, OfARunThatGoesOnIsThatOfOneWithoutInterruption) {
  const TemporaryFolder folder;
  const std::string path = folder.file("log");
  {
    StepLog log(path, 0, files_, Log());
    for (int step = 0; step < 6; ++step) log.write(report_of(step), {0.1, 0});
  }
  const std::string whole = folder.read("log");
  folder.write("log", whole + R"({"step": 6, "lo)");  // killed while it wrote
  {
    StepLog log(path, 4, files_, Log());
    EXPECT_EQ(steps_in(folder.read("log")), "0 1 2 3");
    for (int step = 4; step < 6; ++step) log.write(report_of(step), {0.1, 0});
  }
  EXPECT_EQ(folder.read("log"), whole);
  StepLog fresh(path, 0, files_, Log());
  EXPECT_EQ(folder.read("log"), "") << "a new run has a new log";
}

TEST_F(StepLogs, LinesAreKeptUpToTheFirstThatIsNone) {
  EXPECT_EQ(lines_before("", 5), "");
  EXPECT_EQ(lines_before("{\"step\":1}\n{\"step\":5}\n{\"step\":2}\n", 5), "{\"step\":1}\n");
  EXPECT_EQ(lines_before("{\"step\":1}\nnoise\n{\"step\":2}\n", 5), "{\"step\":1}\n");
  EXPECT_EQ(lines_before("{\"step\":1}\n{\"step\":2}", 5), "{\"step\":1}\n")
      << "without its end it may be half a line";
}

TEST_F(StepLogs, AMissingLogOfARunThatGoesOnBeginsAnew) {
  const TemporaryFolder folder;
  StepLog log(folder.file("log"), 4, files_, Log());
  log.write(report_of(4), {0.1, 0});
  EXPECT_EQ(steps_in(folder.read("log")), "4");
}

TEST_F(StepLogs, ARunThatGoesOnDoesWithoutALogThatCannotBeOpened) {
  const TemporaryFolder folder;
  const std::string path = folder.path().string();  // a folder is no file
  EXPECT_THROW(StepLog(path, 0, files_, Log()), Error);
  std::string logged;
  StepLog log(path, 4, files_,
              Log(LogLevel::kInfo, [&](LogLevel, std::string_view text) { logged += text; }));
  log.write(report_of(4), {0.1, 0});
  log.sync();
  EXPECT_FALSE(log.fine());
  EXPECT_EQ(
      logged,
      fmt::format("log {}: creating: Is a directory (errno 21); training goes on without the log", path));
}

// Of a disk that has no room left for another copy.
TEST_F(StepLogs, WhatIsKeptIsNotWrittenAnew) {
  const TemporaryFolder folder;
  folder.write("log", "{\"step\":1}\n{\"step\":5}\n");
  struct stat before {
  }, after{};
  ASSERT_EQ(stat(folder.file("log").c_str(), &before), 0);
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const rlimit full{0, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  { StepLog log(folder.file("log"), 5, files_, Log()); }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  ASSERT_EQ(stat(folder.file("log").c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
  EXPECT_EQ(folder.read("log"), "{\"step\":1}\n");
}

TEST_F(StepLogs, AFullDiskIsOneWarning) {
  std::string logged;
  StepLog log("/dev/full", 0, files_,
              Log(LogLevel::kInfo, [&](LogLevel, std::string_view text) { logged += text; }));
  EXPECT_TRUE(log.fine());
  for (int step = 0; step < 3; ++step) log.write(report_of(step), {0.1, 0});
  EXPECT_FALSE(log.fine());
  EXPECT_EQ(logged,
            "log /dev/full: writing step 0: No space left on device; training goes on without the log");
}

TEST_F(StepLogs, IsOnTheDiskAfterASyncAndItsNameToo) {
  const TemporaryFolder folder;
  std::vector<std::string> calls;
  test::HookedFiles files([&](std::string_view call, const std::string& path) {
    calls.push_back(fmt::format("{} {}", call, path));
    if (call == "sync") {
      EXPECT_EQ(steps_in(folder.read("log")), "0") << "what is synced has been written";
    }
    return 0;
  });
  StepLog log(folder.file("log"), 0, files, Log());
  log.write(report_of(0), {0.1, 0});
  EXPECT_TRUE(calls.empty()) << "a sync per step would be slow";
  log.sync();
  EXPECT_EQ(calls, (std::vector<std::string>{"sync ", "sync_folder " + folder.path().string()}));
}

TEST_F(StepLogs, ASyncThatFailsIsOneWarningAndWritingGoesOn) {
  const TemporaryFolder folder;
  for (const std::string_view failing : {"sync", "sync_folder"}) {
    test::HookedFiles files(
        [&](std::string_view call, const std::string&) { return call == failing ? EIO : 0; });
    std::string logged;
    StepLog log(folder.file("log"), 0, files,
                Log(LogLevel::kInfo, [&](LogLevel, std::string_view text) { logged += text; }));
    for (int step = 0; step < 3; ++step) {
      log.write(report_of(step), {0.1, 0});
      log.sync();
    }
    EXPECT_TRUE(log.fine());
    EXPECT_EQ(steps_in(folder.read("log")), "0 1 2");
    EXPECT_EQ(logged, fmt::format("log {}: syncing it to the disk: Input/output error; its last lines may be "
                                  "lost if the machine stops",
                                  folder.file("log")));
  }
}

TEST_F(StepLogs, APipeNeedsNoSync) {
  std::string logged;
  StepLog log("/dev/null", 0, files_,
              Log(LogLevel::kInfo, [&](LogLevel, std::string_view text) { logged += text; }));
  log.write(report_of(0), {0.1, 0});
  log.sync();
  EXPECT_EQ(logged, "");
}

TEST_F(StepLogs, OneThatCannotBeCreatedIsAnError) {
  EXPECT_THROW(StepLog("/no/such/folder/log", 0, files_, Log()), Error);
}

}  // namespace
}  // namespace tombolo::trainer
