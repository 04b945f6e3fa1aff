#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "planner/planner.h"
#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

using namespace testing;
using topology::NicKind;

topology::ClusterFile unlike_pairs() {
  return make_cluster({{"b", 2, 1, NicKind::kRoce, 1e9, 5e9}, {"a", 2, 1, NicKind::kInfiniBand, 1e9, 5e9}},
                      1.2e7, 1e-4);
}

/// Two stages of two replicas.
Job two_by_two(int layers, int rows = 16) {
  Job job;
  job.model = small_model(layers);
  job.global_batch = rows;
  job.pipeline = job.data = 2;
  return job;
}

/// The clusters of the ranks of a stage.
std::set<std::string> names_of_stage(const Plan& plan, const topology::ClusterFile& cluster, int stage) {
  std::set<std::string> clusters;
  for (const RankPlacement& place : plan.ranks)
    if (place.stage == stage) clusters.insert(cluster.find_host(place.host)->cluster);
  return clusters;
}

std::vector<int> stage_layers(const Plan& plan) {
  std::vector<int> layers;
  for (const Stage& stage : plan.stages()) layers.push_back(stage.layers);
  return layers;
}

PlanOptions holmes_options() {
  PlanOptions options;
  options.strategy = "holmes";
  return options;
}

TEST(Holmes, FillsWholeStagesFromClustersTheBestNicKindFirst) {
  PlanOptions options = holmes_options();
  options.rank_hosts = {"b0", "a0", "b1", "a1"};
  const Plan plan = make_plan(unlike_pairs(), two_by_two(8), options);
  EXPECT_EQ(names_of_stage(plan, unlike_pairs(), 0), std::set<std::string>{"a"});
  EXPECT_EQ(names_of_stage(plan, unlike_pairs(), 1), std::set<std::string>{"b"});
  ASSERT_EQ(plan.groups.size(), 4u);
  for (const Group& group : plan.groups) {
    const NicKind inside = plan.ranks[static_cast<std::size_t>(group.ranks[0])].stage == 0
                               ? NicKind::kInfiniBand
                               : NicKind::kRoce;
    EXPECT_EQ(group.nic_kind, group.kind == "data" ? inside : NicKind::kTcp);
  }
  EXPECT_EQ(plan.ranks[1].host, "a0");  // ranks stay where the launcher put them; only their slots change
  EXPECT_EQ(plan.ranks[1].stage, 0);
}

TEST(Holmes, GivesFasterClustersMoreLayers) {
  const auto cluster = make_cluster(
      {{"a", 2, 1, NicKind::kInfiniBand, 1e9, 197e9}, {"b", 2, 1, NicKind::kRoce, 1e9, 160e9}}, 1e8);
  Model model = small_model(48);
  EXPECT_EQ(stage_layers(make_plan(cluster, two_by_two(model.layers, 32), holmes_options())),
            (std::vector<int>{26, 22}));
  model.layers = 30;
  EXPECT_EQ(stage_layers(make_plan(cluster, two_by_two(model.layers, 32), holmes_options())),
            (std::vector<int>{16, 14}));
}

TEST(Holmes, SaysWhichClusterHoldsWhichStages) {
  const Plan plan = make_plan(unlike_pairs(), two_by_two(8), holmes_options());
  const auto note = std::ranges::find_if(
      plan.notes, [](const std::string& one) { return one.find("clusters by NIC kind") == 0; });
  ASSERT_NE(note, plan.notes.end());
  EXPECT_NE(note->find("a (infiniband, 10 GFLOP/s) stage 0; b (roce, 10 GFLOP/s) stage 1"), std::string::npos)
      << *note;
}

TEST(Holmes, KeepsGradientsInsideOneKindWhereSomeLayoutDoes) {
  Job job = two_by_two(8);
  job.pipeline = job.data = 0;
  const Plan plan = make_plan(unlike_pairs(), job, holmes_options());
  for (const Group& group : plan.groups)
    if (group.kind == "data") {
      EXPECT_NE(group.nic_kind, NicKind::kTcp);
    }
  job.pipeline = 1;  // a single stage takes both clusters
  const auto notes = make_plan(unlike_pairs(), job, holmes_options()).notes;
  EXPECT_TRUE(std::ranges::any_of(
      notes, [](const std::string& one) { return one.find("a gradient group spans clusters") == 0; }));
}

}  // namespace
}  // namespace tombolo::planner
