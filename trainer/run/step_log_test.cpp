#include "trainer/run/step_log.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/temporary_folder.h"

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

TEST(StepLog, OfARunThatGoesOnIsThatOfOneWithoutInterruption) {
  const TemporaryFolder folder;
  const std::string path = folder.file("log");
  {
    StepLog log(path, 0, Log());
    for (int step = 0; step < 6; ++step) log.write(report_of(step), {0.1, 0});
  }
  const std::string whole = folder.read("log");
  folder.write("log", whole + R"({"step": 6, "lo)");  // killed while it wrote
  {
    StepLog log(path, 4, Log());
    EXPECT_EQ(steps_in(folder.read("log")), "0 1 2 3");
    for (int step = 4; step < 6; ++step) log.write(report_of(step), {0.1, 0});
  }
  EXPECT_EQ(folder.read("log"), whole);
  StepLog fresh(path, 0, Log());
  EXPECT_EQ(folder.read("log"), "") << "a new run has a new log";
}

TEST(StepLog, LinesAreKeptUpToTheFirstThatIsNone) {
  EXPECT_EQ(lines_before("", 5), "");
  EXPECT_EQ(lines_before("{\"step\":1}\n{\"step\":5}\n{\"step\":2}\n", 5), "{\"step\":1}\n");
  EXPECT_EQ(lines_before("{\"step\":1}\nnoise\n{\"step\":2}\n", 5), "{\"step\":1}\n");
  EXPECT_EQ(lines_before("{\"step\":1}\n{\"step\":2}", 5), "{\"step\":1}\n")
      << "without its end it may be half a line";
}

TEST(StepLog, AMissingLogOfARunThatGoesOnBeginsAnew) {
  const TemporaryFolder folder;
  StepLog log(folder.file("log"), 4, Log());
  log.write(report_of(4), {0.1, 0});
  EXPECT_EQ(steps_in(folder.read("log")), "4");
}

TEST(StepLog, AFullDiskIsOneWarning) {
  std::string logged;
  StepLog log("/dev/full", 0, Log(LogLevel::kInfo, [&](LogLevel, std::string_view text) { logged += text; }));
  EXPECT_TRUE(log.fine());
  for (int step = 0; step < 3; ++step) log.write(report_of(step), {0.1, 0});
  EXPECT_FALSE(log.fine());
  EXPECT_EQ(logged,
            "log /dev/full: writing step 0: No space left on device; training goes on without the log");
}

TEST(StepLog, OneThatCannotBeCreatedIsAnError) {
  EXPECT_THROW(StepLog("/no/such/folder/log", 0, Log()), Error);
}

}  // namespace
}  // namespace tombolo::trainer
