#include "tools/demo/report.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

namespace tombolo::tools::demo {
namespace {

// Invented figures, to test the page and the arithmetic; the demo itself fills a report with measurements.
Report made_up_report() {
  Report report;
  report.cluster.emulated = true;
  const char* names[] = {"A0", "A1", "B0", "B1"};
  for (int i = 0; i < 4; ++i) {
    topology::Host host;
    host.name = names[i];
    host.cluster = i < 2 ? "A" : "B";
    topology::Nic fast, slow;
    fast.name = "fast0";
    fast.kind = i < 2 ? topology::NicKind::kInfiniBand : topology::NicKind::kRoce;
    fast.fabric = host.cluster + "-fast";
    fast.emulated = true;
    fast.addresses = {"10.0.0." + std::to_string(i + 1)};
    slow.name = "eth0";
    slow.rate_bits_per_second = 100'000'000;
    slow.addresses = {"10.1.0." + std::to_string(i + 1)};
    host.nics = {fast, slow};
    host.devices.resize(1);
    host.devices[0].name = "cpu";
    report.cluster.hosts.push_back(host);
  }
  for (int a = 0; a < 4; ++a) {
    for (int b = 0; b < 4; ++b) {
      if (a == b) continue;
      if ((a < 2) == (b < 2)) {
        report.cluster.links.push_back({names[a], "fast0", names[b], "fast0", 1.9e9 + 1e7 * a, 3.1e-5, true});
      }
      report.cluster.links.push_back({names[a], "eth0", names[b], "eth0", 11.9e6, 1.1e-4, true});
    }
  }
  report.data = "a text <made up> & short";
  report.data_bytes = 4.4e6;
  report.flops_per_second = 4.2e10;
  report.cores = 2;
  report.warm_up_steps = 2;
  const char* run_names[] = {"one-communicator", "per-peer", "holmes"};
  const char* titles[] = {"One communicator today", "Transport per peer", "Holmes plan"};
  double measured[] = {0.50, 0.40, 0.20};
  double predicted[] = {0.54, 0.38, 0.19};
  for (int i = 0; i < 3; ++i) {
    Run run;
    run.name = run_names[i];
    run.title = titles[i];
    run.plan.strategy = i == 2 ? "holmes" : "megatron";
    run.plan.routing = i == 0 ? "shared" : "per-peer";
    run.plan.job.model = {"demo", 8, 128, 4, 128, 256, 4};
    run.plan.job.global_batch = 8;
    run.plan.job.micro_batch = 2;
    run.plan.job.pipeline = 2;
    run.plan.job.data = 2;
    run.plan.pipelines = {{{{0, 4}, {4, 4}}, 8, 1}};
    const char* order[] = {"A0", "B0", "A1", "B1"};
    for (int r = 0; r < 4; ++r)
      run.plan.ranks.push_back({order[r], 0, i == 2 ? r % 2 : r / 2, i == 2 ? r / 2 : r % 2});
    run.measured_step_seconds = measured[i];
    run.predicted.step_seconds = predicted[i];
    run.tokens_per_second = 1024 / measured[i];
    run.step_seconds = {0.6, measured[i]};
    run.loss = {5.55, 5.2 + 1e-5 * i};
    run.links.push_back({"A0", i == 0 ? "eth0" : "fast0", "A1", i == 0 ? "eth0" : "fast0",
                         i == 0 ? topology::NicKind::kTcp : topology::NicKind::kInfiniBand, 2.4e7, 2.4e6});
    run.links.push_back(
        {"A0", "eth0", "B0", "eth0", topology::NicKind::kTcp, i == 2 ? 4e6 : 3.2e7, i == 2 ? 4e5 : 3.2e6});
    for (int r = 0; r < 4; ++r) {
      double shift = 0.03 * run.plan.ranks[static_cast<std::size_t>(r)].stage;
      for (int m = 0; m < 2; ++m) {
        run.predicted.spans.push_back({r, "forward", m, shift + 0.06 * m, shift + 0.06 * m + 0.02});
        run.predicted.spans.push_back({r, "backward", m, shift + 0.06 * m + 0.02, shift + 0.06 * m + 0.06});
      }
      run.predicted.spans.push_back({r, "all-reduce", -1, shift + 0.1, predicted[i] - 0.01});
      run.predicted.spans.push_back({r, "optimizer", -1, predicted[i] - 0.01, predicted[i]});
    }
    run.measured = run.predicted.spans;
    report.runs.push_back(run);
  }
  for (int step = 0; step < 200; ++step) report.loss.push_back(2.4 + 3.1 / (1 + 0.05 * step));
  report.sample = "And the LORD said unto <him> & \"them\"";
  report.environment = {"Linux 6.1", "some processor",       "gcc 12", "0.1.0", "", 2, 8e9, "namespaces",
                        "",          "2026-01-01T00:00:00Z", 170};
  return report;
}

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
