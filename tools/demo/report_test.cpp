#include "tools/demo/report.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tools/demo/testing_report.h"

namespace tombolo::tools::demo {
namespace {

TEST(DemoReport, ComputesSpeedupsFromTokensPerSecond) {
  Report report = made_up_report();
  EXPECT_NEAR(report.speedup(), 2.5, 1e-9);
  EXPECT_NEAR(report.speedup_from_placement(), 2.0, 1e-9);
  EXPECT_NEAR(report.largest_prediction_error(), 0.08, 1e-9);
  EXPECT_NEAR(report.largest_loss_difference(), 2e-5, 1e-9);
  EXPECT_EQ(report.runs[0].prediction_error_text(), "+8 %");
  EXPECT_EQ(report.runs[1].prediction_error_text(), "-5 %");
}

TEST(DemoReport, RemarksOnWhatIsNotAsExpected) {
  Report report = made_up_report();
  EXPECT_TRUE(report.remarks().empty());
  report.runs[2].predicted.step_seconds = 0.26;  // measured: 0.20
  auto remarks = report.remarks();
  ASSERT_EQ(remarks.size(), 2U);
  EXPECT_EQ(remarks[0], "the prediction for 'Holmes plan' is off by +30 %, more than 10 %");
  EXPECT_NE(remarks[1].find("other work that comes or goes"), std::string::npos);
  report.runs[2].predicted.step_seconds = 0.19;
  report.runs[2].tokens_per_second = 1.3 * report.runs[0].tokens_per_second;
  remarks = report.remarks();
  ASSERT_EQ(remarks.size(), 3U);
  EXPECT_NE(remarks[0].find("not 1.30x"), std::string::npos) << remarks[0];
  EXPECT_NE(remarks[1].find("not 1.04x"), std::string::npos) << remarks[1];
  EXPECT_EQ(report.to_json()["remarks"], Json(remarks));
  EXPECT_NE(report.to_html().find("not 1.30x"), std::string::npos);
}

TEST(DemoReport, KnowsTheFastestRunByItsTokensPerSecond) {
  Report report = made_up_report();
  EXPECT_EQ(&report.fastest(), &report.runs[2]);
  report.runs[0].tokens_per_second = 2 * report.runs[2].tokens_per_second;
  EXPECT_EQ(&report.fastest(), &report.runs[0]);
}

TEST(DemoReport, HasNoSpeedupWithoutThreeRuns) {
  Report report = made_up_report();
  report.runs.pop_back();
  EXPECT_EQ(report.speedup(), 0);
}

TEST(DemoReport, JsonHasTheFieldsScriptsReadAndSurvivesAnyText) {
  Report report = made_up_report();
  Json json = Json::parse(report.to_json().dump());
  ASSERT_EQ(json.at("runs").size(), 3u);
  for (const auto& run : json.at("runs")) {
    for (const char* field :
         {"name", "tokens_per_second", "predicted_step_seconds", "measured_step_seconds", "links"}) {
      EXPECT_TRUE(run.contains(field)) << field;
    }
    EXPECT_EQ(run.at("links").at(0).at("bytes_per_step"), 2.4e6);
  }
  EXPECT_TRUE(json.at("emulated").get<bool>());
  EXPECT_TRUE(json.at("loss_agreement").at("agree").get<bool>());
  EXPECT_EQ(json.at("loss").size(), 200u);
  EXPECT_EQ(json.at("environment").at("emulation"), "namespaces");
}

TEST(DemoReport, SaysWhenTheLossesDoNotAgree) {
  Report report = made_up_report();
  report.runs[2].loss[1] += 1e-3;
  EXPECT_FALSE(report.to_json().at("loss_agreement").at("agree").get<bool>());
  EXPECT_NE(report.to_html().find("more than it should be"), std::string::npos);
}

TEST(DemoReport, PageNeedsNothingFromOutsideAndSaysItIsEmulated) {
  std::string page = made_up_report().to_html();
  for (const char* outside : {"http:", "https:", "<script", "<link", "<img", "@import", "url("}) {
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  }
  EXPECT_NE(page.find("Emulated on one machine"), std::string::npos);
  EXPECT_NE(page.find("a text &lt;made up&gt; &amp; short"), std::string::npos);
  EXPECT_EQ(page.find("<made up>"), std::string::npos);
  EXPECT_EQ(page.find("nan"), std::string::npos);
}

TEST(DemoReport, HoldsTheOrderOfAllPlansAgainstTheMeasuredOne) {
  Report report = made_up_report();
  EXPECT_EQ(report.to_html().find("Other plans of the same job"), std::string::npos);
  auto other = report.runs[2];
  other.name = other.title = "another";
  other.measured_step_seconds = report.runs[2].measured_step_seconds * 1.2;
  other.predicted.step_seconds = report.runs[2].predicted.step_seconds * 1.2;
  report.more.push_back(other);
  EXPECT_TRUE(report.order_as_predicted());
  EXPECT_NE(report.to_html().find("the predicted order is the measured one"), std::string::npos);
  EXPECT_EQ(report.to_json().at("more_runs").size(), 1U);
  // Predicted to be the fastest, but it is not.
  report.more[0].predicted.step_seconds = report.runs[2].predicted.step_seconds * 0.5;
  EXPECT_FALSE(report.order_as_predicted());
  EXPECT_GT(report.largest_prediction_error(), 0.3);
  // Measured the same within the tie: either order will do.
  report.more[0].measured_step_seconds = report.runs[2].measured_step_seconds * 1.01;
  EXPECT_TRUE(report.order_as_predicted());
}

TEST(DemoReport, WritesThePageForTheWellFormednessCheck) {
  const char* path = std::getenv("TOMBOLO_TEST_PAGE");
  if (path == nullptr) GTEST_SKIP() << "TOMBOLO_TEST_PAGE is not set";
  std::ofstream(path) << made_up_report().to_html();
}

TEST(DemoReport, TraceHasARowForComputingAndOneForTheNetworkOfEachRank) {
  Json trace = made_up_report().to_chrome_trace();
  int reduce_rows = 0, forward_rows = 0;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    int row = event.at("tid");
    if (event.at("name") == "all-reduce") reduce_rows += row % 2 == 1 ? 1 : -100;
    if (event.at("name") == "forward") forward_rows += row % 2 == 0 ? 1 : -100;
    EXPECT_GT(event.at("dur").get<double>(), 0);
  }
  EXPECT_EQ(reduce_rows, 24);
  EXPECT_EQ(forward_rows, 48);
}

}  // namespace
}  // namespace tombolo::tools::demo
