#include "planner/cost/context_rounds.h"

#include <gtest/gtest.h>

#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

using testing::make_cluster;
using testing::small_model;

/// Two hosts of four devices, linked by 1 MB/s and 1 ms; inside a host 10 MB/s and 0.1 ms.
topology::ClusterFile two_hosts_of_four() {
  auto cluster = make_cluster({{"a", 2, 4}}, 1e6, 1e-3);
  for (auto& host : cluster.hosts)
    cluster.links.push_back({host.name, "eth", host.name, "eth", 1e7, 1e-4, true});
  return cluster;
}

TEST(ContextRounds, OfARingPassOneBlockFromEachHostToTheOther) {
  const auto cluster = two_hosts_of_four();
  const ClusterView view(cluster, "per-peer", {});
  Job job;
  job.model = small_model(4);
  job.context_parallel = 4;
  const CoreSeconds core{0.8, 2};
  EXPECT_FALSE(context_rounds(job, view, {}, {{0, 0, 1}}, 3, core).crosses());
  const ContextRounds rounds =
      context_rounds(job, view, {}, {{0, 0, 1}, {1, 0, 1}, {4, 1, 1}, {5, 1, 1}}, 3, core);
  const double block = 3 * 2 * job.model.boundary_bytes() / 4;
  ASSERT_EQ(rounds.once.crossings.size(), 2u);
  for (const SlotExchange::Crossing& one : rounds.once.crossings) {
    EXPECT_DOUBLE_EQ(one.bytes, block);
    EXPECT_EQ(one.from_ranks, 1) << "the last on a host sends to the first on the other";
  }
  EXPECT_EQ(rounds.once.crossings[0].from, (std::vector<int>{1}));
  EXPECT_EQ(rounds.once.crossings[0].to, (std::vector<int>{4}));
  EXPECT_DOUBLE_EQ(rounds.once.inside_seconds, block / 1e7);
  EXPECT_DOUBLE_EQ(rounds.once.wait_seconds, 1e-3);
  ASSERT_EQ(rounds.forward.size(), 1u);
  EXPECT_DOUBLE_EQ(rounds.forward[0].times, 3);
  EXPECT_DOUBLE_EQ(rounds.forward[0].beside, 0.75 * core.forward);
  ASSERT_EQ(rounds.backward.size(), 2u) << "gradients go home last";
  EXPECT_DOUBLE_EQ(rounds.backward[0].times, 6);
  EXPECT_DOUBLE_EQ(rounds.backward[0].beside, 0.75 * core.backward);
  EXPECT_DOUBLE_EQ(rounds.backward[1].times, 1);
  EXPECT_EQ(rounds.backward[1].beside, 0);
  job.recompute = Recompute::kFull;
  const ContextRounds again = context_rounds(job, view, {}, {{0, 0, 1}, {4, 1, 1}}, 3, core);
  ASSERT_EQ(again.backward.size(), 3u);
  EXPECT_DOUBLE_EQ(again.backward[0].beside, 0.5 * core.forward);
}

TEST(ContextRounds, OfAnAllToAllAllMembersOfAHostSendToAllOfTheOther) {
  const auto cluster = two_hosts_of_four();
  const ClusterView view(cluster, "per-peer", {});
  Job job;
  job.model = small_model(4);
  job.context_parallel = 4;
  job.context_exchange = ContextExchange::kAllToAll;
  const ContextRounds rounds =
      context_rounds(job, view, {}, {{0, 0, 1}, {1, 0, 1}, {4, 1, 1}, {5, 1, 1}}, 3, {0.8, 2});
  // Queries, keys, values and outputs of a part of the tokens, of which each of the others gets a quarter.
  const double to_one = 3 * 4 * job.model.boundary_bytes() / 4 / 4;
  ASSERT_EQ(rounds.once.crossings.size(), 2u);
  for (const SlotExchange::Crossing& one : rounds.once.crossings) EXPECT_DOUBLE_EQ(one.bytes, 4 * to_one);
  ASSERT_EQ(rounds.forward.size(), 1u);
  EXPECT_EQ(rounds.forward[0].waits, 4);
  EXPECT_EQ(rounds.forward[0].beside, 0);
  EXPECT_DOUBLE_EQ(seconds_alone(rounds.once, view, NicUse::kFirst), 4 * to_one / 1e6 + 1e-3)
      << "through the one NIC of a host";
}

}  // namespace
}  // namespace tombolo::planner
