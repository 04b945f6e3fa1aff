#include "planner/search/host_division.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "base/randomized_test.h"
#include "planner/testing/testing_search.h"

namespace tombolo::planner {
namespace {

using testing::free_job;
using testing::gpu_cluster;
using testing::random_cluster;
using testing::SearchSetting;
using topology::NicKind;

void expect_sound(const Layout& layout, const SearchSetting& setting) {
  std::set<int> ranks;
  int rows = 0;
  for (const Layout::Replica& replica : layout.replicas) {
    EXPECT_GE(replica.rows, 1);
    EXPECT_EQ(replica.rows % replica.micro_batch, 0);
    rows += replica.rows;
    int layers = 0;
    for (const Layout::PipelineSlot& slot : replica.slots) {
      EXPECT_GE(slot.layers, 1);
      layers += slot.layers;
      for (const int rank : slot.ranks) {
        EXPECT_TRUE(ranks.insert(rank).second) << "rank " << rank << " is there twice";
        EXPECT_EQ(setting.slots[at(rank)].host, setting.slots[at(slot.ranks.front())].host);
      }
    }
    EXPECT_EQ(layers, setting.job.model.layers);
  }
  EXPECT_EQ(rows, setting.job.global_batch);
  EXPECT_EQ(ranks.size(), setting.slots.size()) << "all devices are used";
}

TEST(HostDivision, EveryLayoutUsesEachRankOnceAndHoldsTheModelAndTheBatch) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < test_rounds(20); ++round) {
    const SearchSetting setting(random_cluster(random, 2 + static_cast<int>(random() % 7)), free_job(8, 16));
    const auto layouts = host_divisions(setting.context, setting.job, round % 3 == 0);
    EXPECT_FALSE(layouts.empty());
    for (const Layout& layout : layouts) expect_sound(layout, setting);
  }
}

TEST(HostDivision, AlignedTakesWholeHostsAndEqualRows) {
  const SearchSetting setting(gpu_cluster({{"a", 4, 2}}, 1e8), free_job(8, 16));
  const auto layouts = host_divisions(setting.context, setting.job, true);
  ASSERT_FALSE(layouts.empty());
  for (const Layout& layout : layouts) {
    for (const Layout::Replica& replica : layout.replicas) {
      EXPECT_EQ(replica.rows, layout.replicas.front().rows);
      EXPECT_EQ(replica.micro_batch, 1);
    }
    // Both devices of a host are in one replica.
    for (const Layout::Replica& replica : layout.replicas) {
      int ranks = 0;
      for (const auto& slot : replica.slots) ranks += static_cast<int>(slot.ranks.size());
      EXPECT_EQ(ranks % 2, 0);
    }
  }
}

TEST(HostDivision, SlicesOfAHostCanGoToDifferentPipelines) {
  const SearchSetting setting(gpu_cluster({{"a", 2, 4}}, 1e8), free_job(8, 16));
  bool divided = false;
  for (const Layout& layout : host_divisions(setting.context, setting.job, false)) {
    std::set<std::size_t> replicas_of_first_host;
    for (std::size_t i = 0; i < layout.replicas.size(); ++i)
      for (const auto& slot : layout.replicas[i].slots)
        if (setting.slots[at(slot.ranks.front())].host == 0) replicas_of_first_host.insert(i);
    divided |= replicas_of_first_host.size() > 1;
  }
  EXPECT_TRUE(divided);
}

TEST(HostDivision, ObeysTheNumberOfReplicasAndTheTensorDegree) {
  SearchSetting setting(gpu_cluster({{"a", 2, 4}}, 1e8), free_job(8, 16));
  setting.job.data = 2;
  setting.job.tensor = 2;
  const auto layouts = host_divisions(setting.context, setting.job, false);
  ASSERT_FALSE(layouts.empty());
  for (const Layout& layout : layouts) {
    EXPECT_EQ(layout.replicas.size(), 2u);
    for (const auto& replica : layout.replicas)
      for (const auto& slot : replica.slots) EXPECT_EQ(slot.ranks.size(), 2u);
  }
}

}  // namespace
}  // namespace tombolo::planner
