#include "planner/strategies/rank_structures.h"

#include <gtest/gtest.h>

#include <set>

#include "planner/testing/testing_search.h"

namespace tombolo::planner {
namespace {

using testing::gpu_cluster;
using testing::SearchSetting;

std::vector<Structure> structures(const SearchSetting& setting) {
  return structures_of(setting.context, setting.job, exchangeable_classes(setting.context));
}

Job bundled_job(int layers, int rows) {
  Job job;
  job.model = testing::small_model(layers);
  job.global_batch = rows;
  return job;
}

TEST(RankStructures, TwoRanksAreOnePipelineOrTwoInEveryOrder) {
  const SearchSetting apart(gpu_cluster({{"a", 2, 1}}, 1e8), bundled_job(4, 4));
  const auto found = structures(apart);
  const std::set<Structure> all(found.begin(), found.end());
  EXPECT_EQ(all, (std::set<Structure>{{{{0}, {1}}}, {{{1}, {0}}}, {{{0}}, {{1}}}, {{{1}}, {{0}}}}));
  // Of one host: exchangeable.
  const SearchSetting together(gpu_cluster({{"a", 1, 2}}, 1e8), bundled_job(4, 4));
  EXPECT_EQ(structures(together).size(), 2u);
}

TEST(RankStructures, RanksShareLayersInsideOfHostsWhereTheFrameworkCan) {
  const SearchSetting together(gpu_cluster({{"a", 1, 2}}, 1e8), testing::free_job(4, 4));
  EXPECT_EQ(structures(together).size(), 3u);
  const SearchSetting apart(gpu_cluster({{"a", 2, 1}}, 1e8), testing::free_job(4, 4));
  EXPECT_EQ(structures(apart).size(), 4u) << "not between hosts";
}

TEST(RankStructures, UnlikeDevicesOfOneHostAreNotExchangeable) {
  auto cluster = gpu_cluster({{"a", 1, 3}}, 1e8);
  cluster.hosts[0].devices[1].memory_bytes = 1e9;
  const SearchSetting setting(cluster, bundled_job(4, 4));
  const auto classes = exchangeable_classes(setting.context);
  EXPECT_EQ(classes[0], classes[2]);
  EXPECT_NE(classes[0], classes[1]);
}

TEST(RankStructures, KeepToTheJobAndTheOptions) {
  SearchSetting setting(gpu_cluster({{"a", 3, 1}}, 1e8), bundled_job(2, 2));
  for (const Structure& structure : structures(setting)) {
    EXPECT_NE(structure.size(), 3u) << "two rows are too few for three replicas";
    for (const auto& pipeline : structure) EXPECT_LE(pipeline.size(), 2u) << "two layers";
  }
  EXPECT_TRUE(structures(setting).empty()) << "replicas of 2 and 1 stages are not alike";
  setting.options.uneven_replicas = true;
  EXPECT_EQ(structures(setting).size(), 12u) << "2 + 1 or 1 + 2 stages, in 6 orders";
  setting.job.data = 1;
  EXPECT_TRUE(structures(setting).empty()) << "one replica of three stages";
  setting.options.may_leave_out = true;
  EXPECT_EQ(structures(setting).size(), 3u + 6u) << "one rank, or two in either order";
}

}  // namespace
}  // namespace tombolo::planner
