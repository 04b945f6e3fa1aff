#include "tools/reports/calibration_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "planner/testing/testing.h"

namespace tombolo::tools {
namespace {

class CalibrationReport : public ::testing::Test {
 protected:
  CalibrationReport() {
    run_.step_seconds = {9, 2, 4, 3};
    run_.warm_up = 1;
    for (int stage = 0; stage < 2; ++stage) {
      run_.ranks.push_back({});
      run_.ranks.back().host = plan_.ranks[static_cast<std::size_t>(stage)].host;
      run_.ranks.back().stage = stage;
      run_.ranks.back().seconds = {0.5, 1.0, 0.1};
    }
    run_.links = {{"a0", "eth", "b0", "eth", 2e6}};
    calibration_.predicted.step_seconds = 1.5;
    calibration_.calibrated.step_seconds = 3;
    calibration_.predicted.links = {{"a0", "eth", "b0", "eth", 1e6}};
    calibration_.predicted_ranks = {{0.25, 0.5, 0.1}, {0.25, 0.5, 0.1}};
    calibration_.calibrated_ranks = {{0.5, 1.0, 0.1}, {0.5, 1.0, 0.1}};
    calibration_.corrections = {{"a0", 0, "cpu", 2, 2, 1}, {"", 0, "gpu", 1.5, 1.25, 1}};
  }

  planner::Plan plan_ =
      planner::testing::simple_plan(planner::testing::small_model(4), {"a0", "b0"}, 2, 1, 4);
  planner::MeasuredRun run_;
  planner::Calibration calibration_;
};

TEST_F(CalibrationReport, ComparesTheStepWithTheMedianAfterTheWarmUp) {
  const std::string text = describe_calibration(plan_, run_, calibration_);
  for (const char* part : {"3 steps after 1 that warmed up: median 3 s, from 2 s to 4 s", "-50 %", "0 %"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in:\n" << text;
}

TEST_F(CalibrationReport, NamesDevicesByHostOrByNameAlone) {
  const std::string text = describe_calibration(plan_, run_, calibration_);
  EXPECT_NE(text.find("a0 0 (cpu): passes take 2.00 times the predicted time, the update 1.00 times"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("device \"gpu\": forward takes 1.50 times the predicted time, backward 1.25"),
            std::string::npos)
      << text;
}

TEST_F(CalibrationReport, HoldsTheSameFiguresAsJson) {
  const Json json = calibration_json(plan_, run_, calibration_);
  EXPECT_EQ(json["steps"], 3);
  EXPECT_EQ(json["compared"][0]["what"], "step");
  EXPECT_EQ(json["compared"][0]["measured_seconds"], 3.0);
  EXPECT_EQ(json["compared"][0]["error"], -0.5);
  EXPECT_EQ(json["compared"][0]["calibrated_error"], 0.0);
  EXPECT_EQ(json["compared"].size(), 7U) << "the step, and three lines for each stage";
  EXPECT_EQ(json["links"][0]["measured_bytes"], 2e6);
  EXPECT_EQ(json["corrections"][0]["host"], "a0");
  EXPECT_FALSE(json["corrections"][1].contains("host"));
}

TEST_F(CalibrationReport, DrawsAPageOfItsOwn) {
  const auto cluster = planner::testing::make_cluster({{"a", 1}, {"b", 1}}, 1.25e7);
  const std::string page = calibration_page(plan_, cluster, run_, calibration_);
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>")) << page.substr(0, 80);
  EXPECT_EQ(page.find("nan"), std::string::npos);
}

TEST_F(CalibrationReport, OfARunOfWhichOnlyTheStepsAreKnownComparesThose) {
  run_.ranks.clear();
  run_.links.clear();
  run_.flops_per_second = 5e12;
  calibration_.corrections.front().forward = 1.5;
  calibration_.cluster = planner::testing::make_cluster({{"a", 1}, {"b", 1}}, 1.25e7);
  const std::string text = describe_calibration(plan_, run_, calibration_);
  EXPECT_NE(text.find("The log counts 5 TFLOP/s per GPU; by the plan's model its steps attain 0: is it a log "
                      "of this model, "
                      "on as many GPUs?\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("stage 0"), std::string::npos) << text;
  EXPECT_EQ(text.find("Bytes per step"), std::string::npos) << text;
  EXPECT_NE(text.find("on every device FLOP/s are the predicted divided by"), std::string::npos) << text;
  EXPECT_EQ(text.find("do not plan by these"), std::string::npos) << text;
  calibration_.calibrated.step_seconds *= 1.1;
  const std::string unexplained = describe_calibration(plan_, run_, calibration_);
  EXPECT_NE(unexplained.find("do not plan by these FLOP/s"), std::string::npos) << unexplained;
  EXPECT_EQ(unexplained.find("is the most that is tried"), std::string::npos) << unexplained;
  calibration_.corrections.front().forward = 3.9998;
  const std::string limited = describe_calibration(plan_, run_, calibration_);
  EXPECT_NE(limited.find("a factor of 4 is the most that is tried"), std::string::npos) << limited;
  EXPECT_EQ(calibration_json(plan_, run_, calibration_)["compared"].size(), 1U);
  const std::string page = calibration_page(plan_, calibration_.cluster, run_, calibration_);
  EXPECT_NE(page.find("Only the steps of the run are known."), std::string::npos);
  EXPECT_NE(page.find("spread over the passes"), std::string::npos);
}

}  // namespace
}  // namespace tombolo::tools
