#include "planner/plan/placement.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

using testing::make_cluster;
using testing::simple_plan;
using testing::small_model;
using topology::NicKind;

topology::ClusterFile unlike_clusters() {
  return make_cluster({{"i", 2, 2, NicKind::kInfiniBand, 1e9, 4e9}, {"r", 2, 2, NicKind::kRoce, 1e9, 1e9}},
                      1e7);
}

TEST(LauncherSlots, TheSecondMentionOfAHostIsItsSecondDevice) {
  const auto cluster = unlike_clusters();
  const ClusterView view(cluster, "per-peer", {});
  const auto slots = launcher_slots(view, {"r0", "i1", "r0"});
  ASSERT_EQ(slots.size(), 3u);
  EXPECT_EQ(view.host(slots[0].host).name, "r0");
  EXPECT_EQ(slots[0].device, 0);
  EXPECT_EQ(view.host(slots[1].host).name, "i1");
  EXPECT_EQ(slots[2].device, 1);
  EXPECT_EQ(launcher_slots(view, {}).size(), 8u) << "every device";
  EXPECT_THROW(launcher_slots(view, {"x9"}), Error);
  EXPECT_THROW(launcher_slots(view, {"r0", "r0", "r0"}), Error) << "it has two devices";
}

TEST(Placement, LauncherOrderIsMegatrons) {
  const auto cluster = unlike_clusters();
  const ClusterView view(cluster, "per-peer", {});
  const auto slots = launcher_slots(view, {});
  const Placement placement = place_in_launcher_order(view, slots, {2, 2, 2});
  for (int rank = 0; rank < 8; ++rank) {
    const RankPlacement& place = placement.ranks[static_cast<std::size_t>(rank)];
    EXPECT_EQ(place.stage, rank / 4);
    EXPECT_EQ(place.replica, rank / 2 % 2);
    EXPECT_EQ(place.tensor, rank % 2);
  }
  EXPECT_TRUE(placement.tensor_inside_hosts);
  EXPECT_TRUE(placement.groups_inside_kinds);
  ASSERT_EQ(placement.spans.size(), 2u);
  EXPECT_EQ(placement.spans[0].cluster, "i");
  EXPECT_EQ(placement.spans[0].stages, 1);
  EXPECT_DOUBLE_EQ(placement.spans[0].speed, 4 * 4e9);
  EXPECT_DOUBLE_EQ(placement.spans[1].speed, 4 * 1e9);
}

TEST(Placement, SaysWhereGroupsCrossKindsOrHosts) {
  const auto cluster = unlike_clusters();
  const ClusterView view(cluster, "per-peer", {});
  const auto slots = launcher_slots(view, {});
  EXPECT_FALSE(place_in_launcher_order(view, slots, {1, 8, 1}).groups_inside_kinds)
      << "one stage on both clusters is reduced over Ethernet";
  EXPECT_FALSE(place_in_launcher_order(view, slots, {1, 2, 4}).tensor_inside_hosts);
  // The same ranks taken in another order: every other one from the other cluster.
  const Placement mixed = place_in_order(view, slots, {0, 4, 1, 5, 2, 6, 3, 7}, {2, 4, 1});
  EXPECT_FALSE(mixed.groups_inside_kinds);
  EXPECT_EQ(mixed.ranks[4].stage, 0) << "launcher rank 4 takes the second slot";
  EXPECT_DOUBLE_EQ(mixed.spans[0].speed, 2 * 4 * 1e9) << "a stage is as fast as its slowest rank";
}

TEST(Placement, AClustersKindIsTheSlowestInside) {
  auto cluster = unlike_clusters();
  const ClusterView view(cluster, "per-peer", {});
  const auto all = launcher_slots(view, {});
  EXPECT_EQ(cluster_kinds(view, all).at("i"), NicKind::kInfiniBand);
  EXPECT_EQ(cluster_kinds(view, all).at("r"), NicKind::kRoce);
  EXPECT_EQ(cluster_kinds(view, launcher_slots(view, {"r0"})).size(), 1u);
  cluster.hosts[0].nics[0].usable = false;  // i0's fast NIC
  const ClusterView without(cluster, "per-peer", {});
  EXPECT_EQ(cluster_kinds(without, all).at("i"), NicKind::kTcp);
  EXPECT_EQ(cluster_kinds(without, launcher_slots(without, {"i1"})).at("i"), NicKind::kInfiniBand)
      << "of one host, its best NIC's";
}

TEST(Groups, AreReducedAmongRanksOfEqualTensorIndexAndPassedOnByStage) {
  const auto cluster = unlike_clusters();
  const Plan plan = simple_plan(small_model(4), {"i0", "i1", "r0", "r1"}, 2, 2, 4);
  const auto groups = groups_of(plan, ClusterView(cluster, "per-peer", {}));
  ASSERT_EQ(groups.size(), 4u);
  EXPECT_EQ(groups[0].kind, "data");
  EXPECT_EQ(groups[0].ranks, (std::vector<int>{0, 1}));
  EXPECT_EQ(groups[0].nic_kind, NicKind::kInfiniBand);
  EXPECT_EQ(groups[1].nic_kind, NicKind::kRoce);
  EXPECT_EQ(groups[2].kind, "pipeline");
  EXPECT_EQ(groups[2].ranks, (std::vector<int>{0, 2}));
  EXPECT_EQ(groups[2].nic_kind, NicKind::kTcp);
}

TEST(Groups, OfReplicasThatDifferAreThoseOfEachRangeOfLayers) {
  const auto cluster = unlike_clusters();
  Plan plan = simple_plan(small_model(4), {"i0", "i1", "i0"}, 1, 1, 4);
  plan.pipelines = {{{{0, 1}, {1, 3}}, 2, 1}, {{{0, 4}}, 2, 1}};
  plan.job.data = 2;
  plan.ranks = {{"i0", 0, 0, 0}, {"i1", 0, 1, 0}, {"i0", 1, 0, 1}};
  std::vector<std::vector<int>> data;
  for (const Group& group : groups_of(plan, ClusterView(cluster, "per-peer", {})))
    if (group.kind == "data") data.push_back(group.ranks);
  EXPECT_EQ(data, (std::vector<std::vector<int>>{{1, 2}, {0, 2}})) << "the last layers first";
}

TEST(StartableSlots, AreAsTheFrameworkStartsThem) {
  const auto cluster = testing::make_cluster({{"a", 2, 2}, {"b", 1, 1}}, 1e9);
  const ClusterView view(cluster, "per-peer", {});
  const auto slots = launcher_slots(view, {"a0", "b0", "a1", "a0", "a1"});
  const auto hosts = [](const std::vector<LauncherSlot>& some) {
    std::vector<int> all;
    for (const LauncherSlot& slot : some) all.push_back(slot.host);
    return all;
  };
  const auto free = startable_slots(slots, traits(Framework::kTombolo));
  ASSERT_EQ(free.size(), 1U);
  EXPECT_EQ(hosts(free[0]), (std::vector<int>{0, 2, 1, 0, 1}));
  // One rank on each of three nodes, or two on each of two.
  const auto equal = startable_slots(slots, traits(Framework::kMegatron));
  ASSERT_EQ(equal.size(), 2U);
  EXPECT_EQ(hosts(equal[0]), (std::vector<int>{0, 2, 1}));
  EXPECT_EQ(hosts(equal[1]), (std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(equal[1][1].device, 1);
}

TEST(Groups, OfReplicasThatDivideExpertsAreInARowAndThoseOfTheSameApart) {
  const auto cluster = testing::make_cluster({{"a", 4, 1}}, 1e9);
  Plan plan = simple_plan(testing::mixture_model(4), {"a0", "a1", "a2", "a3"}, 1, 4, 4);
  plan.job.framework = Framework::kMegatron;
  plan.job.expert_parallel = 2;
  const auto groups = [&](std::string_view kind) {
    std::vector<std::vector<int>> ranks;
    for (const Group& group : groups_of(plan, ClusterView(cluster, "per-peer", {})))
      if (group.kind == kind) ranks.push_back(group.ranks);
    return ranks;
  };
  using Ranks = std::vector<std::vector<int>>;
  EXPECT_EQ(groups("expert"), (Ranks{{0, 1}, {2, 3}}));
  EXPECT_EQ(groups("expert-data"), (Ranks{{0, 2}, {1, 3}}));
  plan.job.expert_parallel = 4;
  EXPECT_EQ(groups("expert"), (Ranks{{0, 1, 2, 3}}));
  EXPECT_EQ(groups("expert-data"), Ranks{});
}

}  // namespace
}  // namespace tombolo::planner
