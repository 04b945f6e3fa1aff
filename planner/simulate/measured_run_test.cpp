#include "planner/simulate/measured_run.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"

namespace tombolo::planner {
namespace {

std::string measured_run_problem(const std::string& json) {
  try {
    MeasuredRun::parse(JsonDocument::parse(json, "run.json"));
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
    return error.what();
  }
  return "nothing thrown";
}

TEST(MeasuredRun, TheDocumentedExampleReadsAndWritesAgain) {
  std::ifstream file(TOMBOLO_SOURCE_DIR "/docs/planning.md");
  ASSERT_TRUE(file) << "docs/planning.md";
  std::stringstream text;
  text << file.rdbuf();
  const std::string document = text.str();
  const auto begin = document.rfind("```json\n", document.find("\"tombolo_measured\""));
  ASSERT_NE(begin, std::string::npos);
  const auto end = document.find("```", begin + 8);
  const auto run = MeasuredRun::parse(
      JsonDocument::parse(document.substr(begin + 8, end - begin - 8), "docs/planning.md"));
  EXPECT_EQ(run.ranks.size(), 2u);
  EXPECT_EQ(run.ranks[1].host, "b0");
  EXPECT_EQ(run.links.at(0).to_nic, "eth0");
  ASSERT_TRUE(run.ranks[0].processor);
  EXPECT_EQ(run.ranks[0].processor->sending, 0.001);
  EXPECT_FALSE(run.ranks[1].processor);
  EXPECT_EQ(run.ranks[0].clock, PassClock::kHost);
  EXPECT_EQ(run.ranks[1].clock, PassClock::kDevice);
  const Json again = run.to_json();
  EXPECT_EQ(MeasuredRun::parse(JsonDocument::parse(again.dump(), "again")).to_json(), again);
}

TEST(MeasuredRun, TheMedianLeavesOutTheWarmUp) {
  MeasuredRun run;
  run.step_seconds = {9, 1, 3, 2};
  run.warm_up = 1;
  EXPECT_EQ(run.median_step(), 2);
  EXPECT_EQ(MeasuredRun::warm_up_of(1), 0);
  EXPECT_EQ(MeasuredRun::warm_up_of(4), 1);
  EXPECT_EQ(MeasuredRun::warm_up_of(30), 6);
}

TEST(MeasuredRun, NamesWhatIsWrong) {
  const std::string rank =
      R"({"host": "a0", "stage": 0, "replica": 0, "forward_seconds": 1, "backward_seconds": 2, "update_seconds": 0})";
  EXPECT_NE(measured_run_problem(R"({"tombolo_measured": 2})").find("version 2"), std::string::npos);
  EXPECT_NE(measured_run_problem(R"({"tombolo_measured": 1, "step_seconds": [], "ranks": [)" + rank + "]}")
                .find("at least one step"),
            std::string::npos);
  EXPECT_NE(measured_run_problem(R"({"tombolo_measured": 1, "warm_up": 1, "step_seconds": [1], "ranks": [)" +
                                 rank + "]}")
                .find("warm_up"),
            std::string::npos);
  EXPECT_NE(measured_run_problem(R"({"tombolo_measured": 1, "step_seconds": [1], "ranks": []})")
                .find("at least one rank"),
            std::string::npos);
  EXPECT_NE(measured_run_problem(R"({"tombolo_measured": 1, "step_seconds": [1],
 "links": [{"from": "a0", "to": "b0/eth0", "bytes": 1}], "ranks": [)" +
                                 rank + "]}")
                .find("run.json:2: links[0].from: expected \"host/nic\""),
            std::string::npos);
}

}  // namespace
}  // namespace tombolo::planner
