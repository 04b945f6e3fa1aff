// Sailor's evaluation on a tiny model whose steps are added up by hand.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "bench/planner_eval/testing.h"

namespace tombolo::bench {
namespace {

// Of a micro-batch: embedding 3 ms, the first layer 30, three others 60 each, head 15. Of the updates 0.1, 1,
// three times 2, and a third of 0.5: on one stage the head's matrix is the embedding's, and of the 384
// parameters that a rank holds of the head 128, its norm's, are left.
constexpr double kMicroBatch = 0.228, kUpdates = 0.0071 + 0.0005 / 3;

class SailorEvaluation : public ::testing::Test {
 protected:
  SailorEvaluation() {
    folder_.write(
        "sailor/training_config_opt_350.json",
        R"({"num_layers": 4, "hidden_size": 64, "heads": 4, "sequence_length": 32, "vocab_size": 16})");
    folder_.write(
        "sailor/profiles/opt_350_gh96.json",
        R"({"1": {"4": {"0": [0.001, 0.002, 0.0001], "1": [0.01, 0.02, 0.001], "2": [0.02, 0.04, 0.002],
                                  "5": [0.005, 0.01, 0.0005]}}})");
    folder_.write(
        "sailor/network/network_coeffs_all_homo.json",
        R"({"inter": {"GH-96": {"1": [[0, 0, 2.0], 5e9], "4": [[0, 0, 8.0], 2e10]}}, "intra": {"GH-96": {"4": [[0, 0, 2.0], 5e8]}}})");
  }
  /// A run of one pipeline of one stage.
  void add_run(const std::string& name, int rows, double seconds, double peak_bytes) {
    folder_.write("sailor/validation/gh200_opt_350/some/" + name + ".json",
                  fmt::format(R"({{"pipeline_list": [{{"dp": [1], "layers_per_stage": [[0, 1, 2, 3, 4, 5]]}}],
                                  "real": {}, "red_grads": 0.01, "max_mem": {}, "gbs": {}, "mbs": 1}})",
                              seconds, peak_bytes, rows));
  }
  EvaluationReport evaluated() const {
    EvaluationOptions options;
    options.data = folder_.path().string();
    options.details = true;
    EvaluationReport report;
    evaluate_sailor(options, report);
    return report;
  }
  TemporaryFolder folder_;
};

TEST_F(SailorEvaluation, AddsUpTheProfileAndOneConstantOfMemory) {
  add_run("a_G1", 4, 4 * kMicroBatch + kUpdates, 2e9);
  add_run("b_G4", 8, 8 * kMicroBatch + kUpdates, 2e9);
  const EvaluationReport report = evaluated();
  EXPECT_EQ(seen_of(report, "iteration time of 2 runs"), "0.0 %");
  EXPECT_EQ(seen_of(report, "peak memory of the other 1 runs"), "0.0 % (1 constant fitted)")
      << "a longer batch takes no more memory";
  EXPECT_TRUE(report.all_met());
  EXPECT_NE(notes_of(report).find("from the run a_G1"), std::string::npos);
  EXPECT_NE(notes_of(report).find("0.9193 s, measured 0.9193 ("), std::string::npos) << notes_of(report);
}

TEST_F(SailorEvaluation, AMeasurementThatIsOffIsMissed) {
  add_run("a_G1", 4, (4 * kMicroBatch + kUpdates) / 1.2, 2e9);
  const EvaluationReport report = evaluated();
  EXPECT_EQ(seen_of(report, "iteration time of 1 runs"), "20.0 %");
  EXPECT_FALSE(report.all_met());
}

TEST_F(SailorEvaluation, SaysThatTheDataAreMissingAndNamesWhatIsWrongOfThem) {
  EXPECT_NE(notes_of(evaluated()).find("skipped: the data have no "), std::string::npos);
  add_run("a_G1", 0, 1, 1);
  try {
    evaluated();
    ADD_FAILURE() << "a batch of no rows";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("a_G1.json:2: gbs"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tombolo::bench
