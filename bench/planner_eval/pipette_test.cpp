// Placement on matrices whose best order is known by hand.
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "bench/planner_eval/testing.h"

namespace tombolo::bench {
namespace {

class PipetteEvaluation : public ::testing::Test {
 protected:
  /// With 16 workers and this many MB/s between two of them.
  EvaluationReport evaluated(const std::function<double(int, int)>& rate) {
    nlohmann::json rows = nlohmann::json::array();
    for (int from = 0; from < 16; ++from) {
      rows.push_back(nlohmann::json::array());
      for (int to = 0; to < 16; ++to) rows.back().push_back(rate(from, to));
    }
    folder_.write("pipette_attained_bandwidth_16_nodes.json",
                  nlohmann::json{{"1", {{"bandwidth", rows}}}}.dump());
    EvaluationOptions options;
    options.data = folder_.path().string();
    options.annealing_seconds = 0.05;
    EvaluationReport report;
    evaluate_pipette(options, report);
    return report;
  }
  static double milliseconds(const std::string& text) {
    double found = -1;
    const auto digit = text.find_first_of("0123456789");
    EXPECT_EQ(std::sscanf(text.c_str() + std::min(digit, text.size()), "%lf ms", &found), 1) << text;
    return found;
  }
  TemporaryFolder folder_;
};

TEST_F(PipetteEvaluation, WhereAllLinksAreEqualEveryOrderCostsTheSame) {
  const EvaluationReport report = evaluated([](int, int) { return 1000.0; });
  // One pipeline of 16: 15 hops there and back, of 32 micro-batches' activations, 2048 x 2816 x 2 bytes each.
  const auto figure = figure_of(report, "pp 16: communication");
  EXPECT_EQ(figure.at("wanted"), "<= 11072.963 ms");
  EXPECT_EQ(figure.at("seen"), "11072.963 ms (identity 11072.963)");
  EXPECT_EQ(figure.at("met"), true);
}

TEST_F(PipetteEvaluation, FindsTheOrderThatKeepsPipelinesInsideASite) {
  // Two sites, of the outer and the inner workers: ten times as fast inside. As numbered, both the pipelines
  // of two stages and the rings of eight replicas cross.
  const auto site = [](int worker) { return worker >= 4 && worker < 12; };
  const EvaluationReport report =
      evaluated([&](int from, int to) { return site(from) == site(to) ? 1000.0 : 100.0; });
  const double hop = 2 * 32 * 2048 * 2816 * 2.0, gradients = 12.0 * 2816 * 2816 * 32 / 2 / 8 * 2 * 2 * 7 / 8;
  const double pipelines_inside = (hop / 1e9 + gradients / 1e8) * 1e3,
               rings_inside = (hop / 1e8 + gradients / 1e9) * 1e3;
  ASSERT_LT(pipelines_inside, rings_inside);
  const auto figure = figure_of(report, "pp 2: communication");
  EXPECT_NEAR(milliseconds(figure.at("seen")), pipelines_inside, 1e-3);
  EXPECT_GE(milliseconds(figure.at("wanted")), pipelines_inside - 1e-3)
      << "nothing is better, nor is the annealing";
  EXPECT_NE(seen_of(report, "pp 2: communication")
                .find(fmt::format("(identity {:.3f})", (hop + gradients) / 1e8 * 1e3)),
            std::string::npos)
      << figure;
  EXPECT_EQ(figure.at("met"), true);
}

TEST_F(PipetteEvaluation, SaysThatTheDataAreMissing) {
  EvaluationOptions options;
  options.data = folder_.path().string();
  EvaluationReport report;
  evaluate_pipette(options, report);
  EXPECT_NE(notes_of(report).find("skipped: the data have no pipette_attained_bandwidth_16_nodes.json"),
            std::string::npos);
  EXPECT_TRUE(report.all_met());
}

TEST_F(PipetteEvaluation, NamesTheFieldOfDataThatCannotBe) {
  try {
    evaluated([](int from, int to) { return from == 3 && to == 5 ? -1.0 : 1.0; });
    ADD_FAILURE() << "a negative rate";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("bandwidth[3][5]"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tombolo::bench
