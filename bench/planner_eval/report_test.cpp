#include "bench/planner_eval/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace tombolo::bench {
namespace {

EvaluationReport made_up_report() {
  EvaluationReport report;
  report.section("First");
  report.line("speed", "> 1", "2", true);
  report.note("a note");
  report.section("Second");
  return report;
}

TEST(EvaluationReport, HasEachFigureInItsSection) {
  EvaluationReport report = made_up_report();
  EXPECT_TRUE(report.all_met());
  const nlohmann::json json = report.json();
  EXPECT_EQ(json.at("all_met"), true);
  ASSERT_EQ(json.at("sections").size(), 2U);
  EXPECT_EQ(json.at("sections")[0].at("figures")[0],
            (nlohmann::json{{"name", "speed"}, {"wanted", "> 1"}, {"seen", "2"}, {"met", true}}));
  EXPECT_EQ(json.at("sections")[0].at("notes"), nlohmann::json::array({"a note"}));
  EXPECT_EQ(
      report.markdown(),
      "## First\n\n| figure | wanted | seen | |\n|---|---|---|---|\n| speed | > 1 | 2 | met |\n\n* a note\n\n"
      "## Second\n\n\n");
  report.line("size", "< 1", "3", false);
  EXPECT_FALSE(report.all_met());
  report.line("size again", "< 1", "0", true);
  EXPECT_FALSE(report.all_met()) << "one that was missed stays so";
  EXPECT_NE(report.markdown().find("| size | < 1 | 3 | **missed** |"), std::string::npos);
  EXPECT_NE(report.table().find("seen 3                                  MISSED\n"), std::string::npos)
      << report.table();
}

TEST(RankCorrelation, IsOfTheOrderAlone) {
  EXPECT_DOUBLE_EQ(rank_correlation({1, 2, 3, 4}, {10, 20, 30, 1000}), 1);
  EXPECT_DOUBLE_EQ(rank_correlation({1, 2, 3, 4}, {4, 3, 2, 1}), -1);
  // Spearman's 1 - 6 sum(d^2) / (n (n^2 - 1)) with d = 1, 1, 0, 0.
  EXPECT_DOUBLE_EQ(rank_correlation({1, 2, 3, 4}, {2, 1, 3, 4}), 0.8);
}

TEST(RankCorrelation, EqualValuesShareTheirRank) {
  // Ranks 0, 1.5, 1.5, 3 against 0, 1, 2, 3.
  EXPECT_DOUBLE_EQ(rank_correlation({1, 5, 5, 9}, {1, 2, 3, 4}), 4.5 / std::sqrt(4.5 * 5));
  EXPECT_DOUBLE_EQ(rank_correlation({1, 5, 5, 9}, {2, 6, 6, 7}), 1);
}

TEST(RankCorrelation, NeedsTwoListsOfOneLength) {
  EXPECT_THROW(rank_correlation({1, 2}, {1}), Error);
  EXPECT_THROW(rank_correlation({1}, {1}), Error);
}

TEST(MeanAbsoluteError, IsOverWhatWasMeasured) {
  EXPECT_DOUBLE_EQ(mean_absolute_error({1.1, 1.8}, {1, 2}), 0.1);
  EXPECT_DOUBLE_EQ(mean_absolute_error({2}, {2}), 0);
}

}  // namespace
}  // namespace tombolo::bench
