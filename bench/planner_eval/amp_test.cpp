// AMP's evaluation on made-up times, in which the order of the layouts is clear.
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "bench/planner_eval/testing.h"

namespace tombolo::bench {
namespace {

/// NumPy's format, version 1, with a header that nobody reads.
std::string numpy_of(const std::vector<double>& values) {
  std::string bytes("\x93NUMPY\x01\x00\x10\x00", 10);
  bytes += std::string(16, ' ');
  const std::size_t begin = bytes.size();
  bytes.resize(begin + values.size() * sizeof(double));
  std::memcpy(bytes.data() + begin, values.data(), values.size() * sizeof(double));
  return bytes;
}

class AmpEvaluation : public ::testing::Test {
 protected:
  AmpEvaluation() {
    // The more ranks share a layer, the longer it takes: 10, 30 and 100 ms.
    for (const auto& [tensor, seconds] : {std::pair{1, 0.01}, {2, 0.03}, {4, 0.1}}) {
      folder_.write(fmt::format("amp/known_cost/gpt2_G4_{}.npy", tensor),
                    numpy_of(std::vector<double>(28, seconds)));
      folder_.write(fmt::format("amp/known_cost/transgan_P3_{}.npy", tensor),
                    numpy_of(std::vector<double>(54, seconds)));
    }
  }
  void write_trials(const std::string& rows) {
    folder_.write("amp/homogeneous_trials.csv", "mbs,tp,dp,pp,partition,seconds\n" + rows);
  }
  EvaluationReport evaluated() const {
    EvaluationOptions options;
    options.data = folder_.path().string();
    EvaluationReport report;
    evaluate_amp(options, report);
    return report;
  }
  std::string failure() const {
    try {
      evaluated();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
  TemporaryFolder folder_;
};

TEST_F(AmpEvaluation, ComparesTheOrderOfRuns) {
  write_trials("1,4,4,1,[ 0 28],30\n2,2,8,1,[ 0 28],5\n1,1,16,1,[ 0 28],1\n");
  EXPECT_EQ(seen_of(evaluated(), "GPT-2: rank correlation over 3 runs"), "1.000");
  EXPECT_TRUE(evaluated().all_met());
  write_trials("1,4,4,1,[ 0 28],1\n2,2,8,1,[ 0 28],5\n1,1,16,1,[ 0 28],30\n");
  EXPECT_EQ(seen_of(evaluated(), "GPT-2: rank correlation over 3 runs"), "-1.000");
  EXPECT_FALSE(evaluated().all_met());
}

TEST_F(AmpEvaluation, ForeseesRunsThatRunOutOfMemoryAndLeavesOutOtherFailures) {
  // 32 rows at once in the last of 16 stages have 17 GB of logits. What failed with one row and ran with two
  // did not fail for memory.
  write_trials(
      "1,4,4,1,[ 0 28],30\n2,2,8,1,[ 0 28],5\n"
      "32,1,1,16,[0 2 4 6 8 10 12 14 16 18 20 21 22 23 24 25 28],inf\n1,2,8,1,[ 0 28],inf\n");
  const EvaluationReport report = evaluated();
  EXPECT_EQ(seen_of(report, "GPT-2: runs out of memory"), "1 of 1");
  EXPECT_NE(notes_of(report).find("since a larger micro-batch ran (1)."), std::string::npos)
      << notes_of(report);
}

TEST_F(AmpEvaluation, SaysWhichDataAreMissing) {
  EXPECT_NE(notes_of(evaluated()).find("homogeneous_trials.csv"), std::string::npos);
  EXPECT_NE(notes_of(evaluated()).find("het_model_trials.csv"), std::string::npos);
  EvaluationOptions options;
  options.data = folder_.file("nowhere");
  EvaluationReport report;
  evaluate_amp(options, report);
  EXPECT_NE(notes_of(report).find("skipped: the data have no amp/known_cost"), std::string::npos);
}

TEST_F(AmpEvaluation, NamesTheFileThatIsNotWhatItShouldBe) {
  write_trials("nonsense\n");
  EXPECT_NE(failure().find("homogeneous_trials.csv: \"nonsense\" is no trial"), std::string::npos)
      << failure();
  write_trials("1,4,4,1,0 28],30\n");
  EXPECT_NE(failure().find("is no trial"), std::string::npos) << failure();
  folder_.write("amp/known_cost/gpt2_G4_2.npy", "PK");
  EXPECT_NE(failure().find("gpt2_G4_2.npy: not a NumPy array"), std::string::npos) << failure();
  folder_.write("amp/known_cost/gpt2_G4_2.npy", std::string("\x93NUMPY\x01\x00\xff\xff", 10));
  EXPECT_NE(failure().find("gpt2_G4_2.npy: ends within its header"), std::string::npos) << failure();
}

}  // namespace
}  // namespace tombolo::bench
