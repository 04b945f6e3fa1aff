#include <gtest/gtest.h>

#include <random>

#include "base/randomized_test.h"
#include "planner/search/condense.h"
#include "planner/search/shape_search.h"
#include "planner/testing/testing_search.h"

namespace tombolo::planner {
namespace {

using namespace testing;

/// A cluster and a job with what searches need of them.
struct Setting {
  explicit Setting(topology::ClusterFile its_cluster, Job its_job)
      : cluster(std::move(its_cluster)),
        view(cluster, "per-peer", {}),
        slots(launcher_slots(view, {})),
        job(std::move(its_job)) {
    options.uneven_replicas = job.framework == Framework::kMegatron;
  }
  topology::ClusterFile cluster;
  ClusterView view;
  std::vector<LauncherSlot> slots;
  PlanOptions options;
  Job job;
  SearchContext context{view, view, slots, options};
  std::vector<Pool> pools = pools_of(context);
};

Job megatron_job(int layers, int rows) {
  Job job;
  job.model = small_model(layers);
  job.global_batch = rows;
  job.framework = Framework::kMegatron;
  job.tensor = 0;
  return job;
}

topology::ClusterFile gpus(const std::vector<ClusterSpec>& specs, double ethernet) {
  auto cluster = make_cluster(specs, ethernet, 1e-5);
  for (auto& host : cluster.hosts) {
    host.device_bytes_per_second = 1e9;
    for (auto& device : host.devices) device.kind = topology::DeviceKind::kGpu;
  }
  return cluster;
}

TEST(Shape, BecomesALayoutAndBack) {
  const Setting setting(gpus({{"fast", 2, 4, topology::NicKind::kTcp, 0, 4e9}, {"slow", 1, 2}}, 1e8),
                        megatron_job(12, 24));
  ASSERT_EQ(setting.pools.size(), 3u);
  EXPECT_EQ(setting.pools[0].type, setting.pools[1].type);
  EXPECT_NE(setting.pools[0].type, setting.pools[2].type);
  Shape shape;
  shape.micro_batch = 2;
  shape.kinds = {{{{0, 1, 5}, {1, 2, 7}}, 2, 10}, {{{2, 1, 12}}, 1, 2}};
  EXPECT_EQ(shape.replicas(), 3);
  EXPECT_EQ(idle_devices(shape, setting.pools), (std::vector<int>{2, 0, 1}));
  const Layout layout = layout_of(shape, setting.pools);
  ASSERT_EQ(layout.replicas.size(), 3u);
  EXPECT_EQ(layout.replicas[1].slots[1].ranks, (std::vector<int>{6, 7}));
  EXPECT_EQ(layout.replicas[0].rows, 10);
  EXPECT_EQ(shape_of(layout, setting.pools), shape);
}

/// What is estimated is what is simulated, where nothing shares a NIC.
TEST(Estimator, TimesOnePipelineAsTheSimulatorDoes) {
  const Setting setting(gpus({{"a", 3, 1, topology::NicKind::kTcp, 0, 2e9}, {"b", 1, 1}}, 2e7),
                        megatron_job(10, 12));
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
    const Setting setting(gpus({{"a", 2, 4, topology::NicKind::kTcp, 0, 4e9}, {"b", 1, 4}},
                               1e6 * static_cast<double>(5 + random() % 200)),
                          megatron_job(12, 32));
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
  Setting setting(gpus({{"a", 2, 2}}, 1e8), megatron_job(8, 8));
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

TEST(ShapeSearch, ImprovesAndKeepsToTheRules) {
  for (const bool may_leave_out : {false, true}) {
    Setting setting(gpus({{"fast", 2, 4, topology::NicKind::kTcp, 0, 4e9},
                          {"slow", 1, 3, topology::NicKind::kTcp, 0, 1e8}},
                         5e7),
                    megatron_job(12, 16));
    setting.options.may_leave_out = may_leave_out;
    Estimator estimator(setting.context, setting.job, setting.pools);
    Shape shape;
    shape.kinds = {{{{2, 1, 1}, {2, 1, 1}, {2, 1, 1}, {0, 4, 4}, {1, 4, 5}}, 1, 16}};
    const Ranked start{estimator.seconds(shape), shape};
    const Ranked found =
        improved_shape(setting.context, setting.job, setting.pools, estimator, start, 200'000, 1);
    EXPECT_LT(found.seconds, start.seconds);
    int idle = 0;
    for (const int count : idle_devices(found.shape, setting.pools)) {
      EXPECT_GE(count, 0);
      idle += count;
    }
    EXPECT_EQ(idle > 0, may_leave_out) << "a fortieth of the speed is not worth a stage";
    EXPECT_LT(Scorer(setting.context, setting.job).seconds(layout_of(found.shape, setting.pools)),
              Scorer::kNever);
    const Ranked again =
        improved_shape(setting.context, setting.job, setting.pools, estimator, start, 200'000, 1);
    EXPECT_EQ(again.shape, found.shape);
  }
}

TEST(Condense, PlansAPartOfAClusterOfLikeHostsAndRepeatsIt) {
  const Setting setting(gpus({{"a", 4, 2}, {"b", 8, 2}}, 1e8), megatron_job(8, 32));
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

}  // namespace
}  // namespace tombolo::planner
