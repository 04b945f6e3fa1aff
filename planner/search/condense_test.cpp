#include "planner/search/condense.h"

#include <gtest/gtest.h>

#include <set>

#include "planner/testing/testing_search.h"

namespace tombolo::planner {
namespace {

using testing::free_job;
using testing::gpu_cluster;
using testing::SearchSetting;

TEST(Condense, PlansAPartOfAClusterOfLikeHostsAndRepeatsIt) {
  const SearchSetting setting(gpu_cluster({{"a", 4, 2}, {"b", 8, 2}}, 1e8), free_job(8, 32));
  const auto part = condensed(setting.context, setting.job, 6);
  ASSERT_TRUE(part);
  EXPECT_EQ(part->copies, 4);
  EXPECT_EQ(part->slots.size(), 6u);
  EXPECT_EQ(part->job.global_batch, 8);
  Layout layout;
  for (int i = 0; i < 2; ++i) layout.replicas.push_back({{{{i}, 4}, {{2 + i, 4 + i}, 4}}, 4, 1});
  const Layout all = repeated(layout, *part);
  ASSERT_EQ(all.replicas.size(), 8u);
  EXPECT_EQ(all.replicas[2].slots[0].ranks, std::vector<int>{2}) << "host a1's first device";
  Job odd = setting.job;
  odd.global_batch = 30;
  EXPECT_FALSE(condensed(setting.context, odd, 6)) << "the batch does not divide by 4";
}

TEST(Condense, TakesTheFewestCopiesThatAreSmallEnough) {
  const SearchSetting setting(gpu_cluster({{"a", 6, 2}}, 1e8), free_job(8, 36));
  for (const auto& [most_ranks, copies] :
       {std::pair(6, 2), std::pair(5, 3), std::pair(4, 3), std::pair(2, 6)}) {
    const auto part = condensed(setting.context, setting.job, static_cast<std::size_t>(most_ranks));
    ASSERT_TRUE(part) << most_ranks;
    EXPECT_EQ(part->copies, copies) << most_ranks;
    EXPECT_EQ(part->job.global_batch, 36 / copies);
    // Every launcher rank is a twin of one rank of the part.
    std::set<int> seen;
    for (const auto& twins : part->twins) {
      EXPECT_EQ(twins.size(), static_cast<std::size_t>(copies));
      seen.insert(twins.begin(), twins.end());
    }
    EXPECT_EQ(seen.size(), 12u);
  }
  EXPECT_FALSE(condensed(setting.context, setting.job, 1)) << "a host is not divided";
  EXPECT_FALSE(condensed(setting.context, setting.job, 12)) << "the whole is small enough";
}

TEST(Condense, KeepsReplicasThatDivideExpertsTogether) {
  Job job = free_job(8, 32);
  job.model = testing::mixture_model(8);
  job.data = 8;
  job.expert_parallel = 4;
  const SearchSetting setting(gpu_cluster({{"a", 8, 1}}, 1e8), job);
  const auto part = condensed(setting.context, setting.job, 4);
  ASSERT_TRUE(part);
  EXPECT_EQ(part->job.data, 4);
  EXPECT_FALSE(condensed(setting.context, setting.job, 2)) << "two are no group of four";
}

TEST(Condense, HostsOfOneClusterThatDifferAreNotTwins) {
  auto cluster = gpu_cluster({{"a", 2, 1}}, 1e8);
  cluster.hosts[1].devices[0].flops_per_second *= 2;
  const SearchSetting setting(cluster, free_job(8, 32));
  EXPECT_FALSE(condensed(setting.context, setting.job, 1));
}

}  // namespace
}  // namespace tombolo::planner
