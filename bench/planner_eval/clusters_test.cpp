#include "bench/planner_eval/clusters.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "topology/files/link_table.h"

namespace tombolo::bench {
namespace {

TEST(EvaluationClusters, HaveALinkBetweenAnyTwoHostsAndOneInside) {
  const auto cluster =
      cluster_of({{{"A100", 2, 4}, {250e12, 80e9, 200e9}}, {{"4090", 1, 8}, {80e12, 24e9, 10e9}}}, 5e9);
  ASSERT_EQ(cluster.hosts.size(), 3U);
  EXPECT_EQ(cluster.hosts[0].name, "A100-4-0");
  EXPECT_EQ(cluster.hosts[2].name, "4090-8-0");
  EXPECT_EQ(cluster.hosts[0].devices.size(), 4U);
  EXPECT_EQ(cluster.hosts[2].devices[7].flops_per_second, 80e12);
  EXPECT_EQ(cluster.links.size(), 9U);
  const topology::LinkTable links(cluster);
  EXPECT_EQ(links.find("A100-4-0", "eth", "A100-4-1", "eth")->bytes_per_second, 5e9);
  EXPECT_EQ(links.find("4090-8-0", "eth", "A100-4-1", "eth")->latency_seconds, 20e-6);
  EXPECT_EQ(links.find("4090-8-0", "eth", "4090-8-0", "eth")->bytes_per_second, 10e9);
}

TEST(EvaluationJobs, AreLlamasOfTheirPublishedSizes) {
  // LLaMA's paper: 6.7 and 13.0 billion parameters, MLPs of 11008 and 13824.
  const planner::Job seven = llama_job(32, 4096, 32, 256, 32000, 128),
                     thirteen = llama_job(40, 5120, 40, 256, 32000, 128);
  EXPECT_EQ(seven.model.inner(), 11008);
  EXPECT_EQ(thirteen.model.inner(), 13824);
  EXPECT_NEAR(static_cast<double>(seven.model.parameters()) / 1e9, 6.7, 0.05);
  EXPECT_NEAR(static_cast<double>(thirteen.model.parameters()) / 1e9, 13.0, 0.05);
  EXPECT_EQ(seven.global_batch, 128);
  EXPECT_NO_THROW(seven.model.check());
}

TEST(EvaluationOptions, TryEveryKindOfRecomputation) {
  const auto options = options_for("flashflex");
  EXPECT_EQ(options.strategy, "flashflex");
  for (const auto recompute :
       {planner::Recompute::kNone, planner::Recompute::kSelective, planner::Recompute::kFull})
    EXPECT_TRUE(
        std::ranges::any_of(options.savings, [&](const auto& one) { return one.recompute == recompute; }));
}

}  // namespace
}  // namespace tombolo::bench
