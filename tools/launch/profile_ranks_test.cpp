// Times of ranks of this machine; tools/commands/profile_test.cpp merges those of several.
#include "tools/launch/profile_ranks.h"

#include <gtest/gtest.h>

#include "planner/testing/testing.h"
#include "tools/cli/testing.h"

namespace tombolo::tools {
namespace {

planner::Profile::Measurement timed(const std::string& device, const std::string& kind, int rows,
                                    double seconds) {
  planner::Profile::Measurement one;
  one.device = device;
  one.kind = kind;
  one.micro_batch = rows;
  one.times = {seconds, 2 * seconds, 3 * seconds, 100};
  return one;
}

TEST(MedianTimes, AreByDeviceKindAndRowsInTheOrderOfTheirFirst) {
  const auto medians =
      median_times({timed("y", "layer", 1, 4), timed("x", "layer", 1, 1), timed("x", "layer", 2, 9),
                    timed("x", "head", 1, 7), timed("y", "layer", 1, 6), timed("y", "layer", 1, 5)});
  ASSERT_EQ(medians.size(), 4U);
  EXPECT_EQ(medians[0].device, "y");
  EXPECT_EQ(medians[0].times.forward, 5) << "of 4, 5 and 6";
  EXPECT_EQ(medians[0].times.backward, 10);
  EXPECT_EQ(medians[0].times.update, 15);
  EXPECT_EQ(medians[0].times.kept_bytes, 100U);
  EXPECT_EQ(medians[1].times.forward, 1);
  EXPECT_EQ(medians[2].micro_batch, 2);
  EXPECT_EQ(medians[3].kind, "head");
  EXPECT_TRUE(median_times({}).empty());
}

ProfileRequest small_request() {
  ProfileRequest request;
  request.model = planner::testing::small_model(2);
  request.micro_batches = {1, 2};
  request.seconds = 0.01;
  return request;
}

TEST(ProfileHere, TellsHowFarItIs) {
  ProfileRequest request = small_request();
  std::vector<std::pair<int, int>> told;
  request.progress = [&](int done, int total) { told.emplace_back(done, total); };
  const DeviceTimes times = profile_here(request, 1, "mine");
  EXPECT_EQ(told, (std::vector<std::pair<int, int>>{{0, 2}, {1, 2}, {2, 2}}));
  EXPECT_EQ(times.device, "mine");
  ASSERT_EQ(times.measurements.size(), 6U) << "layer, embedding and head of two micro-batches";
  for (const auto& one : times.measurements) EXPECT_EQ(one.device, "mine");
}

TEST(ProfileHere, PassesOnWhatEachRankFailsWith) {
  ProfileRequest request = small_request();
  request.model.bytes_per_value = 2;  // which the trainer does not train
  EXPECT_MENTIONS(error_of([&] { profile_here(request, 1, ""); }, Cause::kUnsupported), "bytes=4");
}

TEST(ProfileHere, RefusesMoreThreadsThanProcessors) {
  ProfileRequest request = small_request();
  request.threads = 10'000;
  EXPECT_MENTIONS(error_of([&] { profile_here(request, 1, ""); }), "1 ranks of 10000 threads");
}

TEST(MergeTimesAtTheEdge, AQuarterMoreIsStillTheSame) {
  const planner::Model model = planner::testing::small_model(2);
  std::vector<std::string> warnings;
  const DeviceTimes fast{"a0", "x", {timed("x", "layer", 1, 4), timed("x", "layer", 2, 8)}},
      slow{"a1", "x", {timed("x", "layer", 1, 100), timed("x", "layer", 2, 10)}};
  const auto merged = merge_times(model, {fast, slow}, warnings);
  EXPECT_TRUE(warnings.empty()) << "by the layer at the largest micro-batch";
  EXPECT_EQ(merged.times("x", "layer", 1, 2)->forward, 9);
}

}  // namespace
}  // namespace tombolo::tools
