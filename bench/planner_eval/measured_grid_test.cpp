#include "bench/planner_eval/measured_grid.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "bench/planner_eval/testing.h"

namespace tombolo::bench {
namespace {

using namespace planner;

/// A folder that goes with the test.
struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / fmt::format("measured_grid_test.{}", ::getpid());
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path / name).parent_path());
    std::ofstream(path / name) << text;
    return (path / name).string();
  }
};

TEST(ReadTable, NamesColumnsAndTheLineThatIsWrong) {
  const Folder folder;
  const auto rows = read_table(folder.write("good.csv", "# a,b c\n1,2\n3,\n"));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].at("b c"), "2");
  EXPECT_EQ(rows[1].at("b c"), "");
  try {
    (void)read_table(folder.write("bad.csv", "a,b\n1,2\n3\n"));
    ADD_FAILURE() << "a short line was read";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("bad.csv:3: 1 values"), std::string::npos) << error.what();
  }
}

TEST(GridRuns, ErrorsAndRegrets) {
  const std::vector<GridRun> runs{{10, 11, true, "x"},  {10, 8, true, "x"},   {12, 12, false, "x"},
                                  {10, 20, false, "y"}, {20, 10, false, "y"}, {30, 30, false, "y"},
                                  {1, 2, true, "alone"}};
  const GridError fitted = error_of(runs, true);
  EXPECT_EQ(fitted.rows, 3);
  EXPECT_NEAR(fitted.mean, (0.1 + 0.2 + 1) / 3, 1e-12);
  EXPECT_NEAR(fitted.median, 0.2, 1e-12);
  const std::vector<double> all = regrets(runs);
  ASSERT_EQ(all.size(), 2U) << "one run leaves no choice";
  EXPECT_NEAR(all[0], 0, 1e-12);
  EXPECT_NEAR(all[1], 1, 1e-12);
  EXPECT_EQ(describe(fitted), "43.3 % (median 20.0 %) of 3 rows");
}

TEST(GridRuns, ErrorWithinGroupsIsWhatNoShiftOfAGroupTakesAway) {
  // The runs of the first are all predicted 3 too low; of the second one is right and the others differ by
  // 10 and 20 from it, of which a shift by 10 leaves least; one alone does not count.
  const std::vector<GridRun> runs{{10, 7, true, "x"},    {20, 17, false, "x"},  {100, 100, true, "y"},
                                  {110, 100, true, "y"}, {120, 100, true, "y"}, {1, 2, true, "alone"}};
  const GridError error = error_within_groups(runs);
  EXPECT_EQ(error.rows, 5);
  EXPECT_NEAR(error.mean, (10.0 / 100 + 10.0 / 120) / 5, 1e-12);
}

TEST(GridRuns, NobodyChoosesWhatIsRefused) {
  std::vector<GridRun> runs{{30, 10, false, "x", true}, {12, 11, false, "x"}, {10, 12, false, "x"}};
  ASSERT_EQ(regrets(runs).size(), 1U);
  EXPECT_NEAR(regrets(runs)[0], 0.2, 1e-12);
  for (GridRun& run : runs) run.refused = true;
  EXPECT_TRUE(regrets(runs).empty());
}

/// Published runs that are part of the program.
TEST(EvaluateMegatron, PredictsPublishedRunsOnUpTo3072Gpus) {
  EvaluationReport report;
  EvaluationOptions options;
  options.details = true;
  evaluate_megatron_a100(options, report);
  EXPECT_NE(seen_of(report, "8 runs").find("of 8 rows"), std::string::npos);
  EXPECT_NE(seen_of(report, "10 models").find("of 10 rows"), std::string::npos);
  EXPECT_NE(notes_of(report).find("1008B parameters, 3072 GPUs"), std::string::npos);
}

TEST(EvaluatePublished, RunsOfNeMoAndTorchtitanAreOneANote) {
  EvaluationOptions options;
  options.details = true;
  EvaluationReport nemo, titan;
  evaluate_nemo_h100(options, nemo);
  evaluate_torchtitan_a100(options, titan);
  EXPECT_NE(seen_of(nemo, "mean absolute error").find("of 14 rows"), std::string::npos);
  EXPECT_NE(seen_of(titan, "mean absolute error").find("of 4 rows"), std::string::npos);
  EXPECT_NE(notes_of(titan).find("llama3-70b, 1 rows each, full recomputation"), std::string::npos);
}

TEST(EvaluateGrids, OfWhatTheModelItselfPredictsShowNoError) {
  // The table's times are those of a first evaluation, whose own times do not matter.
  const Folder folder;
  const auto times_in = [](const EvaluationReport& report, const std::string& unit) {
    const std::string notes = notes_of(report);
    const auto begin = notes.find("predicted ") + 10;
    return notes.substr(begin, notes.find(unit, begin) - begin);
  };
  EvaluationOptions options{.data = folder.path.string()};
  options.details = true;
  const std::string vtrain =
      "# GPUs,global batch,micro batch,hidden size,attention heads,# layers,sequence length,tensor "
      "parallelism,data parallelism,pipeline parallelism,iteration time (ms)\n8,16,2,1024,16,24,1024,2,2,2,";
  const std::string playbook =
      "model,nodes,micro_batch,grad_acc,global_batch,dp,pp,tp,zero,mfu_percent,tokens_per_second,memory_gb,"
      "step_"
      "seconds\n1B,2,1,32,256,4,2,2,1,1,1,1,";
  const auto evaluate = [&](const std::string& vtrain_time, const std::string& playbook_time) {
    (void)folder.write("vtrain/one_node_given.csv", vtrain + vtrain_time + '\n');
    (void)folder.write("playbook/given.csv", playbook + playbook_time + '\n');
    std::pair<EvaluationReport, EvaluationReport> reports;
    evaluate_vtrain(options, reports.first);
    evaluate_playbook(options, reports.second);
    return reports;
  };
  const auto first = evaluate("1000", "1");
  const auto again = evaluate(times_in(first.first, " ms"), times_in(first.second, " s"));
  EXPECT_NE(seen_of(again.first, "rows that were not").find("0.0 %"), std::string::npos);
  EXPECT_NE(seen_of(again.second, "error, rows that were fitted (1B, 8B)").find("0.0 %"), std::string::npos);
}

}  // namespace
}  // namespace tombolo::bench
