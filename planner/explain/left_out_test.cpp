#include "planner/explain/left_out.h"

#include <gtest/gtest.h>

#include "planner/testing/testing_search.h"

namespace tombolo::planner {
namespace {

using testing::gpu_cluster;
using testing::SearchSetting;
using topology::NicKind;

/// Why the two devices of host "other0", of that speed and memory, are left out beside two of 4 GFLOP/s.
std::vector<std::string> reasons(double flops, double memory) {
  const SearchSetting setting(
      gpu_cluster({{"fast", 1, 2, NicKind::kTcp, 0, 4e9}, {"other", 1, 2, NicKind::kTcp, 0, flops, memory}},
                  1e8),
      testing::free_job(8, 8));
  Layout layout;
  layout.replicas = {{{{{0}, 4}, {{1}, 4}}, 8, 1}};
  return why_left_out(setting.context, Scorer(setting.context, setting.job).plan(layout));
}

TEST(LeftOut, SaysThatOneLayerTakesLongerThanAllOfTheSlowestStage) {
  const auto sentences = reasons(4e8, 0);
  ASSERT_EQ(sentences.size(), 1u);
  EXPECT_EQ(sentences[0].find("left out: 2 test of other0: one layer takes "), 0u) << sentences[0];
}

TEST(LeftOut, SaysThatNotOneLayerFits) {
  EXPECT_EQ(reasons(4e9, 1000).at(0), "left out: 2 test of other0: not one layer fits into their memory");
}

TEST(LeftOut, OtherwiseSaysThatNothingFasterWasFound) {
  EXPECT_EQ(reasons(4e9, 0).at(0), "left out: 2 test of other0: no plan that was found with them is faster");
}

TEST(LeftOut, SaysNothingWhereEveryDeviceIsUsed) {
  const SearchSetting setting(gpu_cluster({{"a", 1, 2}}, 1e8), testing::free_job(8, 8));
  Layout layout;
  layout.replicas = {{{{{0}, 4}, {{1}, 4}}, 8, 1}};
  EXPECT_TRUE(why_left_out(setting.context, Scorer(setting.context, setting.job).plan(layout)).empty());
}

}  // namespace
}  // namespace tombolo::planner
