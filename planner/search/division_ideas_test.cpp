#include "planner/search/division_ideas.h"

#include <gtest/gtest.h>

#include "planner/testing/testing_search.h"

namespace tombolo::planner {
namespace {

using testing::free_job;
using testing::gpu_cluster;
using testing::SearchSetting;
using topology::NicKind;

HostSlice slice_of(DivisionIdeas& ideas, const std::vector<int>& ranks, int type) {
  HostSlice slice;
  for (const int rank : ranks) slice.units.push_back(ideas.unit({rank}, type));
  ideas.time(slice);
  return slice;
}

/// Host "fast0" with two devices of 3 GFLOP/s, host "slow0" with two of 1 GFLOP/s.
SearchSetting fast_and_slow() {
  return SearchSetting(
      gpu_cluster({{"fast", 1, 2, NicKind::kTcp, 0, 3e9}, {"slow", 1, 2, NicKind::kTcp, 0, 1e9}}, 1e9),
      free_job(8, 16));
}

TEST(DivisionIdeas, ASlicesSpeedIsTheSumOfItsUnits) {
  const SearchSetting setting(gpu_cluster({{"a", 1, 3}}, 1e9), free_job(8, 16));
  DivisionIdeas ideas(setting.context, setting.job, false);
  const HostSlice one = slice_of(ideas, {0}, 0), three = slice_of(ideas, {0, 1, 2}, 0);
  ASSERT_EQ(one.speeds.size(), three.speeds.size());
  ASSERT_EQ(one.speeds.size(), 5u) << "micro-batches of 1, 2, 4, 8 and 16 rows";
  for (std::size_t i = 0; i < one.speeds.size(); ++i) EXPECT_NEAR(three.speeds[i], 3 * one.speeds[i], 1e-6);
  EXPECT_NEAR(one.speeds[0], 2 * one.speeds[1], 1e-6) << "twice the rows take twice as long";
}

TEST(DivisionIdeas, RowsFollowThePipelinesSpeedAndLayersThatOfTheirUnits) {
  SearchSetting setting = fast_and_slow();
  setting.job.micro_batch = 1;
  DivisionIdeas ideas(setting.context, setting.job, false);
  const std::vector<HostSlice> slices = {slice_of(ideas, {0, 1}, 0), slice_of(ideas, {2, 3}, 1)};
  ideas.add(slices, 2, {0, 1});
  ideas.add(slices, 1, {0, 0});
  bool two = false, one = false;
  for (const Layout& layout : ideas.layouts()) {
    if (layout.replicas.size() == 2) {
      two = true;
      // With a micro-batch more on the way, 13 + 1 times one third ends before 4 + 1 would.
      EXPECT_EQ(layout.replicas[0].rows, 13);
      EXPECT_EQ(layout.replicas[1].rows, 3);
    } else {
      one = true;
      const auto& slots = layout.replicas[0].slots;
      ASSERT_EQ(slots.size(), 4u);
      EXPECT_EQ(slots[0].layers + slots[1].layers, 6);
    }
  }
  EXPECT_TRUE(two && one);
}

TEST(DivisionIdeas, TheBestByEstimateComesFirst) {
  SearchSetting setting = fast_and_slow();
  setting.job.micro_batch = 1;
  DivisionIdeas ideas(setting.context, setting.job, false);
  std::vector<HostSlice> slices;
  for (int rank = 0; rank < 4; ++rank) slices.push_back(slice_of(ideas, {rank}, rank / 2));
  ideas.add(slices, 2, {0, 1, 0, 1});  // a fast and a slow device each
  ideas.add(slices, 2, {0, 0, 0, 1});  // a slow device by itself
  const auto layouts = ideas.layouts();
  ASSERT_EQ(layouts.size(), 2u);
  EXPECT_EQ(layouts[0].replicas[0].slots.size(), 2u);
}

TEST(DivisionIdeas, ReplicasThatMustBeAlikeGetEqualRowsOrAreNoIdea) {
  SearchSetting setting = fast_and_slow();
  setting.options.uneven_replicas = false;
  setting.job.micro_batch = 1;
  DivisionIdeas ideas(setting.context, setting.job, false);
  std::vector<HostSlice> slices;
  for (int rank = 0; rank < 4; ++rank) slices.push_back(slice_of(ideas, {rank}, rank / 2));
  ideas.add(slices, 2, {0, 0, 0, 1});
  EXPECT_TRUE(ideas.layouts().empty()) << "pipelines of three and one";
  ideas.add(slices, 2, {0, 0, 1, 1});  // of equal stages, but one is three times as fast
  const auto layouts = ideas.layouts();
  ASSERT_EQ(layouts.size(), 1u);
  EXPECT_EQ(layouts[0].replicas[0].rows, 8);
  EXPECT_EQ(layouts[0].replicas[1].rows, 8);
}

}  // namespace
}  // namespace tombolo::planner
