#include "planner/search/shape_costs.h"

#include <gtest/gtest.h>

#include <random>

#include "base/randomized_test.h"
#include "planner/cost/memory.h"
#include "planner/testing/testing_search.h"

namespace tombolo::planner {
namespace {

using testing::free_job;
using testing::gpu_cluster;
using testing::SearchSetting;
using topology::NicKind;

TEST(ShapeCosts, AreThoseOfTheSlot) {
  const SearchSetting setting(gpu_cluster({{"a", 1, 4}}, 1e8), free_job(12, 16));
  ShapeCosts costs(setting.context, setting.job, setting.pools);
  Shape shape;
  shape.micro_batch = 2;
  Layout layout;
  layout.replicas = {{{{{0, 1}, 12}}, 16, 2}};
  const SlotCosts slot = slot_costs(plan_of(setting.context, setting.job, layout), setting.view, {0, 1});
  EXPECT_DOUBLE_EQ(costs.layer_seconds(0, 2, shape), slot.layer.both());
  EXPECT_DOUBLE_EQ(costs.head_seconds(0, 2, shape), slot.head.both());
  const Shape::Kind kind{{{0, 2, 5}, {0, 2, 7}}, 1, 8};
  EXPECT_DOUBLE_EQ(costs.tick(kind, shape), 7 * slot.layer.both() + slot.head.both());
}

TEST(ShapeCosts, SomeDegreesCannotBe) {
  SearchSetting setting(gpu_cluster({{"a", 1, 4}}, 1e8), free_job(12, 16));
  const Shape shape;
  {
    ShapeCosts costs(setting.context, setting.job, setting.pools);
    EXPECT_TRUE(costs.of(0, 4, shape).possible);
    EXPECT_FALSE(costs.of(0, 3, shape).possible) << "four heads";
    EXPECT_FALSE(costs.of(0, 8, shape).possible) << "four devices";
  }
  setting.job.tensor = 2;
  ShapeCosts fixed(setting.context, setting.job, setting.pools);
  EXPECT_FALSE(fixed.of(0, 4, shape).possible);
  EXPECT_EQ(fixed.layer_seconds(0, 4, shape), Scorer::kNever);
  setting.job.tensor = 0;
  setting.job.framework = Framework::kTombolo;
  ShapeCosts bundled(setting.context, setting.job, setting.pools);
  EXPECT_TRUE(bundled.of(0, 1, shape).possible);
  EXPECT_FALSE(bundled.of(0, 2, shape).possible) << "the bundled trainer has no tensor parallelism";
}

TEST(ShapeCosts, RoomIsTheMostLayersThatFit) {
  std::mt19937 random(test_seed());
  for (int round = 0; round < test_rounds(50); ++round) {
    auto cluster = gpu_cluster({{"a", 1, 4}}, 1e8);
    const double memory = std::uniform_real_distribution<>(2e6, 1e7)(random);
    for (auto& device : cluster.hosts[0].devices) device.memory_bytes = memory;
    const SearchSetting setting(cluster, free_job(40, 8));
    ShapeCosts costs(setting.context, setting.job, setting.pools);
    Shape shape;
    shape.kinds = {{{{0, 1, 10}, {0, 1, 10}, {0, 1, 10}, {0, 1, 10}}, 1, 8}};
    for (int slot = 0; slot < 4; ++slot) {
      const int room = costs.room(shape.kinds[0], slot, shape);
      const auto needed = [&](int layers) {
        Layout layout;
        layout.replicas = {{{{{0}, 1}, {{1}, 1}, {{2}, 1}, {{3}, 1}}, 8, 1}};
        layout.replicas[0].slots[at(slot)].layers = layers;
        return static_cast<double>(rank_memory(plan_of(setting.context, setting.job, layout), 0, slot).total);
      };
      if (room > 0) {
        EXPECT_LE(needed(room), memory) << "slot " << slot;
      }
      EXPECT_GT(needed(room + 1), memory) << "slot " << slot;
    }
  }
}

TEST(ShapeCosts, LayersFollowSpeedWithinMemory) {
  auto cluster =
      gpu_cluster({{"fast", 1, 1, NicKind::kTcp, 0, 3e9}, {"slow", 1, 1, NicKind::kTcp, 0, 1e9}}, 1e8);
  {
    const SearchSetting setting(cluster, free_job(40, 16));
    ShapeCosts costs(setting.context, setting.job, setting.pools);
    const Shape shape;
    Shape::Kind kind{{{0, 1, 0}, {1, 1, 0}}, 1, 16};
    ASSERT_TRUE(costs.give_layers(kind, shape));
    EXPECT_EQ(kind.slots[0].layers + kind.slots[1].layers, 40);
    EXPECT_NEAR(kind.slots[0].layers, 30, 1);
    Shape::Kind deep{std::vector<Shape::PipelineSlot>(41, {0, 1, 0}), 1, 16};
    EXPECT_FALSE(costs.give_layers(deep, shape)) << "more slots than layers";
  }
  Layout layout;
  layout.replicas = {{{{{0}, 10}, {{1}, 30}}, 16, 1}};
  const SearchSetting roomy(cluster, free_job(40, 16));
  const Plan ten = plan_of(roomy.context, roomy.job, layout);
  cluster.hosts[0].devices[0].memory_bytes = static_cast<double>(rank_memory(ten, 0, 0).total);
  const SearchSetting setting(cluster, free_job(40, 16));
  ShapeCosts costs(setting.context, setting.job, setting.pools);
  Shape::Kind kind{{{0, 1, 0}, {1, 1, 0}}, 1, 16};
  ASSERT_TRUE(costs.give_layers(kind, Shape()));
  EXPECT_EQ(kind.slots[0].layers, 10) << "the fast device has room for no more";
}

TEST(ShapeCosts, MicroBatchesFollowSpeedAndAllAreGivenOut) {
  std::mt19937 random(test_seed());
  for (int round = 0; round < test_rounds(50); ++round) {
    const double faster = std::uniform_real_distribution<>(1, 5)(random);
    SearchSetting setting(
        gpu_cluster({{"a", 1, 2, NicKind::kTcp, 0, 1e9 * faster}, {"b", 1, 1, NicKind::kTcp, 0, 1e9}}, 1e8),
        free_job(8, 4 * std::uniform_int_distribution(1, 30)(random)));
    ShapeCosts costs(setting.context, setting.job, setting.pools);
    Shape shape;
    shape.micro_batch = 1 << std::uniform_int_distribution(0, 2)(random);
    shape.kinds = {{{{0, 1, 8}}, 2, 0}, {{{1, 1, 8}}, 1, 0}};
    const int all = setting.job.global_batch / shape.micro_batch;
    ASSERT_EQ(costs.share_micro_batches(shape), all >= 3);
    if (all < 3) continue;
    EXPECT_EQ(shape.kinds[0].micro_batches + shape.kinds[1].micro_batches, all);
    EXPECT_GE(shape.kinds[1].micro_batches, 1);
    EXPECT_NEAR(shape.kinds[1].micro_batches, all / (2 * faster + 1), 2);
  }
}

TEST(ShapeCosts, ReplicasThatMustBeAlikeGetEqualShares) {
  SearchSetting setting(gpu_cluster({{"a", 3, 1}}, 1e8), free_job(8, 12));
  setting.options.uneven_replicas = false;
  ShapeCosts costs(setting.context, setting.job, setting.pools);
  Shape shape;
  shape.kinds = {{{{0, 1, 8}}, 1, 0}, {{{1, 1, 8}}, 1, 0}, {{{2, 1, 8}}, 1, 0}};
  ASSERT_TRUE(costs.share_micro_batches(shape));
  for (const Shape::Kind& kind : shape.kinds) EXPECT_EQ(kind.micro_batches, 4);
  shape.micro_batch = 3;
  EXPECT_FALSE(costs.share_micro_batches(shape)) << "four micro-batches among three";
}

}  // namespace
}  // namespace tombolo::planner
