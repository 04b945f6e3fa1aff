// FlashFlex's clusters with a tiny model: the search against the simple one, and both against the bound.
#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "bench/planner_eval/testing.h"

namespace tombolo::bench {
namespace {

class FlashflexEvaluation : public ::testing::Test {
 protected:
  EvaluationReport evaluated() const {
    EvaluationOptions options;
    options.data = folder_.path().string();
    EvaluationReport report;
    evaluate_flashflex(options, report);
    return report;
  }
  void write_specs(const std::string& of_3090) {
    folder_.write("flashflex/machine_amounts.json",
                  R"({"machine_specs": {"3080Ti": [68, 12, 5], "3090": )" + of_3090 +
                      R"(, "4090": [165, 24, 10], "4090-4": [165, 24, 10], "A100": [312, 80, 200]}})");
    for (const char* name : {"7b", "13b", "30b"})
      folder_.write(fmt::format("flashflex/llama-config/llama-{}.json", name),
                    R"({"n_layers": 4, "dim": 256, "n_heads": 4, "multiple_of": 64, "vocab_size": 1000})");
  }
  TemporaryFolder folder_;
};

TEST_F(FlashflexEvaluation, IsNoWorseThanTheSimpleSearchAndBelowTheBound) {
  write_specs("[71, 24, 10]");
  const nlohmann::json sections = evaluated().json().at("sections");
  const auto& figures = sections.at(0).at("figures");
  ASSERT_EQ(figures.size(), 10U) << "two models on two clusters and one on the third, at two rates";
  for (const auto& figure : figures) {
    double usual = 0, now = 0, bound = 0;
    int used = 0, all = 0;
    const std::string wanted = figure.at("wanted"), seen = figure.at("seen");
    ASSERT_EQ(std::sscanf(wanted.c_str(), ">= 1.2 x %lf", &usual), 1) << wanted;
    ASSERT_EQ(std::sscanf(seen.c_str(), "%lf (", &now), 1) << seen;
    ASSERT_EQ(std::sscanf(seen.c_str() + seen.find(';'), "; %d of %d GPUs; bound %lf", &used, &all, &bound),
              3)
        << seen;
    EXPECT_GT(usual, 0) << figure;
    EXPECT_GE(now, 0.999 * usual) << figure;
    EXPECT_LT(now, bound) << figure;
    EXPECT_LE(used, all) << figure;
  }
}

TEST_F(FlashflexEvaluation, SaysThatTheDataAreMissingAndNamesWhatIsWrongOfThem) {
  EXPECT_NE(notes_of(evaluated()).find("skipped: the data have no "), std::string::npos);
  write_specs("[71, 0, 10]");
  try {
    evaluated();
    ADD_FAILURE() << "a device without memory";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("machine_specs.3090[1]"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tombolo::bench
