#include "planner/search/estimate.h"

#include <gtest/gtest.h>

#include <random>

#include "base/randomized_test.h"
#include "planner/search/shape_search.h"
#include "planner/testing/testing_search.h"

namespace tombolo::planner {
namespace {

using testing::free_job;
using testing::gpu_cluster;
using testing::SearchSetting;

/// What is estimated is what is simulated, where nothing shares a NIC.
TEST(Estimator, TimesOnePipelineAsTheSimulatorDoes) {
  const SearchSetting setting(gpu_cluster({{"a", 3, 1, topology::NicKind::kTcp, 0, 2e9}, {"b", 1, 1}}, 2e7),
                              free_job(10, 12));
  Shape shape;
  shape.kinds = {{{{3, 1, 1}, {0, 1, 3}, {1, 1, 4}, {2, 1, 2}}, 1, 12}};
  Estimator estimator(setting.context, setting.job, setting.pools);
  Job untied = setting.job;
  untied.model.tied_embeddings = false;
  const double simulated = Scorer(setting.context, untied).seconds(layout_of(shape, setting.pools));
  EXPECT_NEAR(estimator.seconds(shape), simulated, 0.01 * simulated);
}

TEST(Estimator, IsNotFarFromTheSimulatorForReplicasThatShareNics) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 10; ++round) {
    const SearchSetting setting(gpu_cluster({{"a", 2, 4, topology::NicKind::kTcp, 0, 4e9}, {"b", 1, 4}},
                                            1e6 * static_cast<double>(5 + random() % 200)),
                                free_job(12, 32));
    Estimator estimator(setting.context, setting.job, setting.pools);
    for (const Ranked& ranked : column_shapes(setting.context, setting.job, setting.pools, estimator, 8)) {
      const double simulated =
          Scorer(setting.context, setting.job).seconds(layout_of(ranked.shape, setting.pools));
      EXPECT_GT(ranked.seconds, 0.6 * simulated);
      EXPECT_LT(ranked.seconds, 1.4 * simulated);
    }
  }
}

TEST(Estimator, KnowsWhatTheJobFixesAndWhatFits) {
  SearchSetting setting(gpu_cluster({{"a", 2, 2}}, 1e8), free_job(8, 8));
  for (auto& host : setting.cluster.hosts)
    for (auto& device : host.devices) device.memory_bytes = 3e6;
  setting.job.data = 1;
  Shape shape;
  shape.kinds = {{{{0, 2, 4}, {1, 2, 4}}, 1, 8}};
  EXPECT_LT(Estimator(setting.context, setting.job, setting.pools).seconds(shape), Scorer::kNever);
  shape.kinds[0].slots = {{0, 2, 8}};
  EXPECT_EQ(Estimator(setting.context, setting.job, setting.pools).seconds(shape), Scorer::kNever);
  shape.kinds[0] = {{{0, 1, 4}, {1, 1, 4}}, 2, 8};
  EXPECT_EQ(Estimator(setting.context, setting.job, setting.pools).seconds(shape), Scorer::kNever);
}

TEST(Estimator, IsNotFarFromTheSimulatorForReplicasThatShareWhatTheyHold) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 24; ++round) {
    Job job = free_job(12, 32);
    job.framework = round % 2 == 0 ? Framework::kAny : Framework::kTorchTitan;
    job.sequence_parallel = traits(job.framework).tensor_divides_sequence;
    const SearchSetting setting(gpu_cluster({{"a", 4, 2}}, 1e6 * static_cast<double>(2 + random() % 100)),
                                job);
    Estimator estimator(setting.context, setting.job, setting.pools);
    Shape shape;
    shape.micro_batch = 1 + static_cast<int>(random() % 2);
    shape.saving.sharding = random() % 2 == 0 ? Sharding::kGradients : Sharding::kParameters;
    for (int host = 0; host < 4; ++host) shape.kinds.push_back({{{host, 2, 12}}, 1, 8 / shape.micro_batch});
    const double simulated = Scorer(setting.context, setting.job).seconds(layout_of(shape, setting.pools));
    EXPECT_GT(estimator.seconds(shape), 0.7 * simulated) << "round " << round;
    EXPECT_LT(estimator.seconds(shape), 1.3 * simulated) << "round " << round;
  }
}

TEST(Estimator, IsNotFarFromTheSimulatorForReplicasThatDivideExperts) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 24; ++round) {
    Job job = free_job(6, 32);
    job.framework = Framework::kMegatron;
    job.model = testing::mixture_model(6);
    job.sequence_parallel = true;
    const SearchSetting setting(gpu_cluster({{"a", 4, 2}}, 1e6 * static_cast<double>(5 + random() % 200)),
                                job);
    Estimator estimator(setting.context, setting.job, setting.pools);
    Shape shape;
    shape.micro_batch = 1 + static_cast<int>(random() % 2);
    shape.saving.sharding = random() % 2 == 0 ? Sharding::kNone : Sharding::kOptimizer;
    shape.saving.expert_parallel = 1 << random() % 3;
    if (random() % 2 == 0)
      for (int host = 0; host < 4; ++host) shape.kinds.push_back({{{host, 2, 6}}, 1, 8 / shape.micro_batch});
    else
      shape.kinds = {{{{0, 1, 3}, {1, 1, 3}}, 2, 16 / shape.micro_batch},
                     {{{2, 1, 3}, {3, 1, 3}}, 2, 16 / shape.micro_batch}};
    Layout layout = layout_of(shape, setting.pools);
    const double simulated = Scorer(setting.context, setting.job).seconds(layout);
    ASSERT_LT(simulated, Scorer::kNever);
    EXPECT_GT(estimator.seconds(shape), 0.6 * simulated) << "round " << round;
    EXPECT_LT(estimator.seconds(shape), 1.4 * simulated) << "round " << round;
  }
}

/// Replicas on one host exchange over its links, others over NICs that they share with none.
TEST(Estimator, IsNotFarFromTheSimulatorForReplicasThatDivideTokens) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 24; ++round) {
    Job job = free_job(6, 32);
    job.framework = Framework::kMegatron;
    job.context_parallel = 1 << (1 + random() % 2);
    job.context_exchange = random() % 2 == 0 ? ContextExchange::kRing : ContextExchange::kAllToAll;
    const bool one_host = random() % 2 == 0;
    auto cluster = gpu_cluster({{"a", 4, one_host ? 4 : 1}}, 1e5 * static_cast<double>(2 + random() % 100));
    // A group goes at the pace of its slowest device, wherever that is in it.
    if (!one_host && random() % 2 == 0) cluster.hosts[random() % 4].devices[0].flops_per_second /= 3;
    if (random() % 2 == 0)
      for (auto& link : cluster.links) link.latency_seconds = 5e-3;
    const SearchSetting setting(std::move(cluster), job);
    Estimator estimator(setting.context, setting.job, setting.pools);
    Shape shape;
    shape.micro_batch = 1 + static_cast<int>(random() % 2);
    const int rows = setting.job.replica_rows() / shape.micro_batch;
    if (one_host)
      shape.kinds = {{{{0, 1, 6}}, 4, rows}};
    else
      for (int host = 0; host < 4; ++host) shape.kinds.push_back({{{host, 1, 6}}, 1, rows / 4});
    const Layout layout = layout_of(shape, setting.pools);
    const double simulated = Scorer(setting.context, setting.job).seconds(layout),
                 bound = lower_bound(plan_of(setting.context, setting.job, layout), setting.view);
    ASSERT_LT(simulated, Scorer::kNever);
    EXPECT_LE(bound, simulated * (1 + 1e-9)) << "round " << round;
    EXPECT_GT(estimator.seconds(shape), 0.7 * simulated) << "round " << round;
    EXPECT_LT(estimator.seconds(shape), 1.3 * simulated) << "round " << round;
  }
}

}  // namespace
}  // namespace tombolo::planner
