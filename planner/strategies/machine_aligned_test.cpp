#include "planner/strategies/machine_aligned.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "planner/testing/testing_search.h"

namespace tombolo::planner {
namespace {

using namespace testing;

TEST(MachineAligned, TakesWholeHostsAndEqualRows) {
  const SearchSetting setting(gpu_cluster({{"a", 2, 4, topology::NicKind::kTcp, 0, 4e9}, {"b", 2, 2}}, 1e8),
                              free_job(12, 24));
  const auto plan = machine_aligned_plan(setting.context, setting.job);
  ASSERT_TRUE(plan);
  std::map<std::string, std::set<int>> replicas;
  for (const RankPlacement& place : plan->ranks) replicas[place.host].insert(place.replica);
  for (const auto& [host, of_host] : replicas) EXPECT_EQ(of_host.size(), 1u) << host;
  for (const Pipeline& pipeline : plan->pipelines) {
    EXPECT_EQ(pipeline.rows, plan->pipelines.front().rows);
    EXPECT_EQ(pipeline.micro_batch, 1);
  }
  EXPECT_TRUE(plan->left_out.empty());
}

TEST(MachineAligned, FindsNothingWhereNothingFits) {
  auto cluster = gpu_cluster({{"a", 2, 1}}, 1e8);
  for (auto& host : cluster.hosts) host.devices[0].memory_bytes = 1000;
  const SearchSetting setting(cluster, free_job(8, 8));
  EXPECT_FALSE(machine_aligned_plan(setting.context, setting.job));
}

}  // namespace
}  // namespace tombolo::planner
