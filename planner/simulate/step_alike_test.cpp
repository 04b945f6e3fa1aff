#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/randomized_test.h"
#include "planner/model/index.h"
#include "planner/simulate/simulator.h"
#include "planner/simulate/step_graph.h"
#include "planner/testing/testing.h"
#include "planner/testing/testing_steps.h"

namespace tombolo::planner {
namespace {

using testing::alike_hosts;
using testing::mixture_model;
using testing::one_of;
using testing::random_plan;
using testing::simple_plan;
using testing::small_model;
using testing::spoil;

/// How many replicas a plan's graph has for all; 0 where none stands for another.
int acting(const Plan& plan, const ClusterView& view) {
  const StepGraph graph = build_step(plan, view, 1, {}, AlikeReplicas::kOnce);
  return static_cast<int>(graph.copies.size() -
                          static_cast<std::size_t>(std::ranges::count(graph.copies, 0)));
}

TEST(StepAlike, OneReplicaForAllThatAreAlikeTakesTheSameTime) {
  std::mt19937_64 random(test_seed());
  int rounds = 0, folded = 0, several = 0;
  for (; rounds < test_rounds(300); ++rounds) {
    const int clusters = 1 + static_cast<int>(random() % 3), hosts = one_of(random, {1, 2, 4}),
              devices = one_of(random, {1, 2, 4});
    auto file = alike_hosts(random, clusters, hosts, devices);
    if (random() % 3 == 0) spoil(random, file);
    const Plan plan = random_plan(random, file);
    const ClusterView view(file, "per-peer", {});
    const Simulation each = simulate(plan, view, {.spans = false}),
                     once = simulate(plan, view, {.spans = false, .links = false});
    const int act = acting(plan, view);
    folded += act > 0;
    several += act > 1;
    ASSERT_NEAR(once.step_seconds / each.step_seconds, 1, 1e-9)
        << act << " of " << plan.data_size() << " replicas in round " << rounds;
    ASSERT_NEAR(once.bubble_fraction, each.bubble_fraction, 1e-9);
    const Simulation cut =
        simulate(plan, view, {.spans = false, .links = false, .limit_seconds = 0.9 * each.step_seconds});
    ASSERT_GT(cut.step_seconds, 0.9 * each.step_seconds);
    const Simulation allowed = simulate(
        plan, view, {.spans = false, .links = false, .limit_seconds = each.step_seconds * (1 + 1e-6)});
    ASSERT_EQ(allowed.step_seconds, once.step_seconds);
  }
  EXPECT_GT(folded, rounds / 4) << "few are alike";
  EXPECT_GT(several, rounds / 20) << "few have several kinds of replicas";
}

/// 2 clusters of 4 hosts of 2 GPUs, each with a replica of 2 stages inside one cluster.
struct TwoHalls {
  explicit TwoHalls(int seed = 5) {
    std::mt19937_64 random(static_cast<unsigned>(seed));
    file = alike_hosts(random, 2, 4, 2);
    plan = simple_plan(small_model(4), {}, 2, 8, 3);
    plan.job.framework = Framework::kMegatron;
    for (int rank = 0; rank < 16; ++rank)
      plan.ranks.push_back({file.hosts[at(rank / 2)].name, rank % 2, rank % 2, rank / 2});
  }
  int acting() const { return planner::acting(plan, ClusterView(file, "per-peer", {})); }

  topology::ClusterFile file;
  Plan plan;
};

TEST(StepAlike, ReplicasOfEqualHostsAreOne) {
  EXPECT_EQ(TwoHalls().acting(), 1);
}

TEST(StepAlike, WhatDiffersIsNotSimulatedForOthers) {
  TwoHalls slow;
  slow.file.hosts[1].devices[0].flops_per_second *= 0.9;
  EXPECT_EQ(slow.acting(), 2) << "all wait for it, but share with it nothing that it uses otherwise";
  TwoHalls apart;
  apart.plan.pipelines[3].rows += 1;
  EXPECT_EQ(apart.acting(), 2);
  TwoHalls crossed;
  for (int stage = 0; stage < 2; ++stage)
    std::swap(crossed.plan.ranks[at(stage)].replica, crossed.plan.ranks[at(14 + stage)].replica);
  EXPECT_EQ(crossed.acting(), 1) << "in another order";
  std::swap(crossed.plan.ranks[1].replica, crossed.plan.ranks[15].replica);
  EXPECT_NE(crossed.acting(), 1) << "two pipelines cross, the others do not";
}

TEST(StepAlike, TokenBucketsAreNotSharedOutByOneForAll) {
  TwoHalls bursts;
  for (topology::Host& host : bursts.file.hosts)
    for (topology::Nic& nic : host.nics) nic.burst_bytes = 1e4;
  EXPECT_EQ(bursts.acting(), 0);
}

TEST(StepAlike, TheNormDoesNotWaitForHostsBetweenWhichNothingIsSent) {
  // Only the second stage has mixtures, so that the hosts of the first send each other gradients alone, which
  // go round: never back over the slow links.
  TwoHalls dense;
  for (topology::Link& link : dense.file.links)
    if ((link.from_host == "a1" && link.to_host == "a0") || (link.from_host == "a3" && link.to_host == "a2"))
      link.latency_seconds = 0.25;
  dense.plan.job.model = mixture_model(4);
  dense.plan.job.model.dense_first = 2;
  dense.plan.job.expert_parallel = 4;
  for (int rank = 0; rank < 16; ++rank)
    dense.plan.ranks[at(rank)] = {dense.file.hosts[at(rank / 2)].name, rank % 2, rank / 8, rank % 8};
  EXPECT_GT(dense.acting(), 0);
  const ClusterView view(dense.file, "per-peer", {});
  const double each = simulate(dense.plan, view, {.spans = false}).step_seconds,
               once = simulate(dense.plan, view, {.spans = false, .links = false}).step_seconds;
  EXPECT_NEAR(once / each, 1, 1e-9);
}

TEST(StepAlike, AGraphOfOneForAllHasNoFlowsAndIsSmaller) {
  const TwoHalls halls;
  const ClusterView view(halls.file, "per-peer", {});
  const StepGraph each = build_step(halls.plan, view, 1),
                  once = build_step(halls.plan, view, 1, {}, AlikeReplicas::kOnce);
  EXPECT_FALSE(each.flows.empty());
  EXPECT_TRUE(each.copies.empty());
  EXPECT_TRUE(once.flows.empty());
  EXPECT_LT(4 * once.engine.size(), each.engine.size());
  EXPECT_EQ(once.copies.front(), 8);
}

}  // namespace
}  // namespace tombolo::planner
