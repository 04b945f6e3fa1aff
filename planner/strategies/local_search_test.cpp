#include "planner/strategies/local_search.h"

#include <gtest/gtest.h>

#include <random>

#include "base/randomized_test.h"
#include "planner/testing/testing_search.h"

namespace tombolo::planner {
namespace {

using namespace testing;

/// A plan of that layout, with its prediction.
Plan start_of(const SearchSetting& setting, const Layout& layout) {
  return Scorer(setting.context, setting.job).plan(layout);
}

TEST(LocalSearch, MovesLayersToTheFasterDevice) {
  const SearchSetting setting(gpu_cluster({{"fast", 1, 1, topology::NicKind::kTcp, 0, 3e9},
                                           {"slow", 1, 1, topology::NicKind::kTcp, 0, 1e9}},
                                          1e9),
                              free_job(16, 16));
  Layout even;
  even.replicas = {{{{{0}, 8}, {{1}, 8}}, 16, 1}};
  const Plan start = start_of(setting, even);
  const Plan better = improved_plan(setting.context, setting.job, start, 100);
  EXPECT_LT(better.prediction.step_seconds, 0.7 * start.prediction.step_seconds);
  EXPECT_NEAR(simulate(better, setting.cluster).step_seconds, better.prediction.step_seconds, 1e-12);
}

TEST(LocalSearch, MovesLayersOfSeveralStagesAtOnceWhereNoSingleOneMay) {
  // torchtitan's stages between the ends have equally many layers.
  Job job = free_job(16, 16);
  job.framework = Framework::kTorchTitan;
  job.tensor = 1;
  SearchSetting setting(gpu_cluster({{"slow", 2, 1, topology::NicKind::kTcp, 0, 1e9},
                                     {"fast", 2, 1, topology::NicKind::kTcp, 0, 3e9}},
                                    1e12),
                        job);
  setting.options.uneven_replicas = false;
  Layout even;
  even.replicas = {{{{{0}, 4}, {{2}, 4}, {{3}, 4}, {{1}, 4}}, 16, 1}};
  const Plan start = start_of(setting, even);
  const Plan better = improved_plan(setting.context, setting.job, start, 200);
  EXPECT_LT(better.prediction.step_seconds, 0.65 * start.prediction.step_seconds);
  const auto slots = layout_of(setting.context, better).replicas.at(0).slots;
  EXPECT_EQ(slots[0].layers, 2);
  EXPECT_EQ(slots[1].layers, 6);
}

TEST(LocalSearch, InterleavesStagesWhoseLayersDoNotDivideIntoChunks) {
  auto cluster = gpu_cluster({{"a", 1, 4}}, 1e12);
  cluster.hosts[0].device_bytes_per_second = 1e12;
  const double speeds[] = {7e9, 5e9, 5e9, 7e9};
  for (std::size_t device = 0; device < 4; ++device)
    cluster.hosts[0].devices[device].flops_per_second = speeds[device];
  Job job = free_job(24, 4);
  job.pipeline = 4;
  SearchSetting setting(cluster, job);
  setting.options.schedules = {{Schedule::kOneForwardOneBackward, 1}, {Schedule::kInterleaved, 2}};
  Layout layout;
  layout.replicas = {{{{{0}, 7}, {{1}, 5}, {{2}, 5}, {{3}, 7}}, 4, 1}};
  const Plan start = start_of(setting, layout);
  const Plan better = improved_plan(setting.context, setting.job, start, 200);
  EXPECT_EQ(better.job.chunks, 2);
  EXPECT_LT(better.prediction.step_seconds, start.prediction.step_seconds);
}

TEST(LocalSearch, ExchangesRanksThatSitOnTheWrongHosts) {
  // Fast links join a0 with a1 and a2 with a3; the pipeline goes to and fro between the pairs.
  auto cluster = gpu_cluster({{"a", 4, 1}}, 1e5);
  for (auto& link : cluster.links)
    if ((link.from_host.back() - '0') / 2 == (link.to_host.back() - '0') / 2) link.bytes_per_second = 1e9;
  SearchSetting setting(cluster, free_job(8, 16));
  setting.job.tensor = 1;
  Layout crossed;
  crossed.replicas = {{{{{0}, 2}, {{2}, 2}, {{1}, 2}, {{3}, 2}}, 16, 1}};
  const Plan start = start_of(setting, crossed);
  const Plan better = improved_plan(setting.context, setting.job, start, 200);
  EXPECT_LT(better.prediction.step_seconds, 0.9 * start.prediction.step_seconds);
  int slow_borders = 0;
  const auto slots = layout_of(setting.context, better).replicas.at(0).slots;
  for (std::size_t i = 0; i + 1 < slots.size(); ++i)
    slow_borders += slots[i].ranks[0] / 2 != slots[i + 1].ranks[0] / 2;
  EXPECT_EQ(slow_borders, 1);
}

TEST(LocalSearch, MovesWholeStagesSoThatThePipelineCrossesOnce) {
  // Both replicas go from a to b and back; to exchange two hosts would have gradients cross too.
  Job job = free_job(8, 16);
  job.framework = Framework::kMegatron;
  job.tensor = 1;
  const SearchSetting setting(gpu_cluster({{"a", 4, 1, topology::NicKind::kInfiniBand, 1e9},
                                           {"b", 4, 1, topology::NicKind::kRoce, 1e9}},
                                          1e6),
                              job);
  Layout crossed;
  crossed.replicas = {{{{{0}, 2}, {{4}, 2}, {{5}, 2}, {{1}, 2}}, 8, 1},
                      {{{{2}, 2}, {{6}, 2}, {{7}, 2}, {{3}, 2}}, 8, 1}};
  const Plan start = start_of(setting, crossed);
  const Plan better = improved_plan(setting.context, setting.job, start, 200);
  EXPECT_LT(better.prediction.step_seconds, start.prediction.step_seconds);
  for (const Layout::Replica& replica : layout_of(setting.context, better).replicas) {
    int crossings = 0;
    for (std::size_t i = 0; i + 1 < replica.slots.size(); ++i)
      crossings += replica.slots[i].ranks[0] / 4 != replica.slots[i + 1].ranks[0] / 4;
    EXPECT_EQ(crossings, 1);
  }
}

TEST(LocalSearch, NeverEndsWorseAndKeepsReplicasAlikeWhereTheyMustBe) {
  std::mt19937_64 random(test_seed());
  for (int trial = 0; trial < test_rounds(10); ++trial) {
    SearchSetting setting(random_cluster(random, 4), free_job(8, 8));
    setting.options.uneven_replicas = trial % 2 == 0;
    Layout layout;
    layout.replicas = {{{{{0}, 4}, {{1}, 4}}, 4, 1}, {{{{2}, 4}, {{3}, 4}}, 4, 1}};
    const Plan start = start_of(setting, layout);
    const Plan better = improved_plan(setting.context, setting.job, start, 50);
    EXPECT_LE(better.prediction.step_seconds, start.prediction.step_seconds);
    if (!setting.options.uneven_replicas) {
      EXPECT_TRUE(layout_of(setting.context, better).uniform()) << "trial " << trial;
    }
    EXPECT_EQ(improved_plan(setting.context, setting.job, start, 0).prediction.step_seconds,
              start.prediction.step_seconds)
        << "no simulations, no moves";
  }
}

}  // namespace
}  // namespace tombolo::planner
