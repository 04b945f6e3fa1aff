#include "planner/search/layers_again.h"

#include <gtest/gtest.h>

#include <random>

#include "base/randomized_test.h"
#include "planner/cost/memory.h"
#include "planner/search/layout.h"
#include "planner/search/shape_costs.h"
#include "planner/strategies/strategy.h"
#include "planner/testing/testing_search.h"

namespace tombolo::planner {
namespace {

using testing::gpu_cluster;
using testing::SearchSetting;

/// A pipeline over the four GPUs of a host, with whole layers computed again as memory needs.
Plan pipeline_of_four(const SearchSetting& setting, const std::vector<int>& layers, int chunks = 1) {
  Layout layout;
  layout.replicas.resize(1);
  layout.replicas[0].rows = 8;
  layout.replicas[0].micro_batch = 1;
  for (int slot = 0; slot < 4; ++slot) layout.replicas[0].slots.push_back({{slot}, layers[at(slot)]});
  layout.chunks = chunks;
  if (chunks > 1) layout.schedule = Schedule::kInterleaved;
  layout.saving.recompute = Recompute::kFull;
  return plan_of(setting.context, setting.job, layout);
}

Job open_job(int layers) {
  Job job = testing::free_job(layers, 8);
  job.framework = Framework::kMegatron;
  job.recompute_layers = Job::kAsNeeded;
  return job;
}

bool fits(Plan plan, const ClusterView& view, int layers) {
  plan.job.recompute_layers = layers;
  return missing_memory(plan, view).bytes == 0;
}

TEST(LayersAgain, AreTheFewestWithWhichEveryRankFits) {
  std::mt19937 random(test_seed());
  int some = 0;
  for (int round = 0; round < test_rounds(60); ++round) {
    auto cluster = gpu_cluster({{"a", 1, 4}}, 1e8);
    // The first round's memory holds some layers, whatever the seed is: the others' may hold all or none.
    for (auto& device : cluster.hosts[0].devices)
      device.memory_bytes = round == 0 ? 1.2e7 : std::uniform_real_distribution<>(9e6, 1.6e7)(random);
    const SearchSetting setting(cluster, open_job(48));
    const bool interleaved = round % 3 == 0;
    Plan plan =
        interleaved ? pipeline_of_four(setting, {6, 6, 6, 6}, 2) : pipeline_of_four(setting, {14, 8, 12, 14});
    const int all = interleaved ? 6 : 14;
    settle_layers_again(plan, setting.view);
    const int again = plan.job.recompute_layers;
    if (again == 0) {
      EXPECT_FALSE(fits(plan, setting.view, all - 1));
    } else {
      ++some;
      EXPECT_TRUE(fits(plan, setting.view, again));
      if (again > 1) {
        EXPECT_FALSE(fits(plan, setting.view, again - 1));
      }
    }
  }
  EXPECT_GT(some, 0);
}

TEST(LayersAgain, AreAllOfThemWhereThatIsNotOpen) {
  const SearchSetting setting(gpu_cluster({{"a", 1, 4}}, 1e8), open_job(48));
  const auto settled = [&](auto change) {
    Plan plan = pipeline_of_four(setting, {12, 12, 12, 12});
    change(plan.job);
    settle_layers_again(plan, setting.view);
    return plan.job.recompute_layers;
  };
  EXPECT_EQ(settled([](Job&) {}), 1) << "memory is not short";
  EXPECT_EQ(settled([](Job& job) { job.recompute_layers = 5; }), 5);
  EXPECT_EQ(settled([](Job& job) { job.recompute_layers = 12; }), 0) << "that is all";
  EXPECT_EQ(settled([](Job& job) { job.recompute_layers = 0; }), 0);
  EXPECT_EQ(settled([](Job& job) { job.recompute = Recompute::kNone; }), 0);
  EXPECT_EQ(settled([](Job& job) { job.context_parallel = 2; }), 0);
}

TEST(LayersAgain, OfAShapeAreThoseOfItsPlan) {
  std::mt19937 random(test_seed());
  for (int round = 0; round < test_rounds(40); ++round) {
    auto cluster = gpu_cluster({{"a", 1, 4}}, 1e8);
    const double memory = std::uniform_real_distribution<>(9e6, 1.6e7)(random);
    for (auto& device : cluster.hosts[0].devices) device.memory_bytes = memory;
    const SearchSetting setting(cluster, open_job(48));
    Plan plan = pipeline_of_four(setting, {12, 12, 12, 12});
    ShapeCosts costs(setting.context, setting.job, setting.pools);
    const Shape shape = shape_of(layout_of(setting.context, plan), setting.pools);
    settle_layers_again(plan, setting.view);
    const int of_shape = std::min(12, costs.layers_again(shape));
    EXPECT_EQ(of_shape, plan.job.recompute_layers == 0 ? 12 : plan.job.recompute_layers) << memory;
  }
}

/// A job that fits only with something computed again.
TEST(LayersAgain, MakeAPlanFasterThanComputingAllAgain) {
  auto cluster = gpu_cluster({{"a", 1, 2}}, 1e8);
  Job job = open_job(12);
  job.data = 1;
  job.pipeline = 2;
  job.tensor = 1;
  job.micro_batch = 1;
  PlanOptions options;
  options.savings = {{Recompute::kNone}, {Recompute::kFull}};
  options.strategy = "megatron";
  const Plan roomy = make_plan(cluster, job, options);
  Plan recomputed = roomy;
  recomputed.job.recompute = Recompute::kFull;
  const double most = static_cast<double>(roomy.prediction.memory[0].total),
               least = static_cast<double>(rank_memory(recomputed, 0, 0).total);
  for (auto& device : cluster.hosts[0].devices) device.memory_bytes = (most + least) / 2;
  const Plan some = make_plan(cluster, job, options);
  ASSERT_EQ(some.job.recompute, Recompute::kFull);
  EXPECT_GT(some.job.recompute_layers, 0);
  job.recompute_layers = 0;
  const Plan all = make_plan(cluster, job, options);
  EXPECT_EQ(all.job.recompute_layers, 0);
  EXPECT_LT(some.prediction.step_seconds, all.prediction.step_seconds);
  EXPECT_GT(some.prediction.step_seconds, roomy.prediction.step_seconds);
}

}  // namespace
}  // namespace tombolo::planner
