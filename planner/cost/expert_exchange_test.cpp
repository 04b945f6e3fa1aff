#include "planner/cost/expert_exchange.h"

#include <gtest/gtest.h>

#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

using testing::make_cluster;

/// Three hosts of four devices, linked by 1 MB/s and 1 ms; inside a host 10 MB/s and 0.1 ms.
topology::ClusterFile hosts_of_four() {
  auto cluster = make_cluster({{"a", 3, 4}}, 1e6, 1e-3);
  for (auto& host : cluster.hosts)
    cluster.links.push_back({host.name, "eth", host.name, "eth", 1e7, 1e-4, true});
  return cluster;
}

TEST(ExpertExchange, SendsEveryOtherItsPartOfTheTokensOfATokensExperts) {
  const auto cluster = hosts_of_four();
  const ClusterView view(cluster, "per-peer", {});
  Job job;
  job.model = testing::mixture_model(4);
  job.framework = Framework::kMegatron;
  const double all = 3.0 * 32 * 2 * 64 * 4;  // rows, tokens, experts per token, width, bytes
  EXPECT_FALSE(expert_exchange(job, view, {}, {{0, 0, 1}}, 3).crosses());
  EXPECT_EQ(seconds_alone(expert_exchange(job, view, {}, {{0, 0, 1}}, 3), view, NicUse::kNearest), 0);

  const SlotExchange inside = expert_exchange(job, view, {}, {{0, 0, 2}, {2, 0, 2}}, 3);
  EXPECT_FALSE(inside.crosses());
  EXPECT_DOUBLE_EQ(inside.inside_seconds, all / 2 / 2 / 1e7) << "two ranks send half of a half each";
  EXPECT_DOUBLE_EQ(inside.wait_seconds, 1e-4);

  // Three on one host and one on another: one in four of each member's tokens go to each other.
  const SlotExchange crossing =
      expert_exchange(job, view, {}, {{0, 0, 1}, {1, 0, 1}, {2, 0, 1}, {4, 1, 1}}, 3);
  ASSERT_EQ(crossing.crossings.size(), 2u);
  for (const SlotExchange::Crossing& one : crossing.crossings) EXPECT_DOUBLE_EQ(one.bytes, 3 * all / 4);
  EXPECT_DOUBLE_EQ(crossing.inside_seconds, 2 * all / 4 / 1e7);
  EXPECT_DOUBLE_EQ(crossing.wait_seconds, 1e-3);
  EXPECT_DOUBLE_EQ(seconds_alone(crossing, view, NicUse::kFirst), 3 * all / 4 / 1e6 + 1e-3);
  // On three hosts the NIC of each sends to two others.
  const SlotExchange wide = expert_exchange(job, view, {}, {{0, 0, 1}, {4, 1, 1}, {8, 2, 1}}, 3);
  EXPECT_EQ(wide.crossings.size(), 6u);
  EXPECT_DOUBLE_EQ(seconds_alone(wide, view, NicUse::kFirst), 2 * all / 3 / 1e6 + 1e-3);
  // The one that gets most is waited for.
  job.expert_parallel = 2;
  job.model.expert_imbalance = 1.25;
  EXPECT_DOUBLE_EQ(expert_exchange(job, view, {}, {{0, 0, 2}, {2, 0, 2}}, 3).inside_seconds,
                   1.25 * inside.inside_seconds);
  EXPECT_DOUBLE_EQ(expert_exchange(job, view, {}, {{0, 0, 1}, {4, 1, 1}}, 3).crossings[0].bytes,
                   1.25 * all / 2);
  job.expert_parallel = 1;
  // Replicas that divide rows' tokens have a part of these.
  job.context_parallel = 2;
  EXPECT_DOUBLE_EQ(expert_exchange(job, view, {}, {{0, 0, 1}, {4, 1, 1}}, 3).crossings[0].bytes, all / 2 / 2);
}

TEST(ExpertExchange, IsThereAndBackAndAgainWhereTheForwardPassIs) {
  EXPECT_EQ(expert_exchanges(Recompute::kNone, true), 2);
  EXPECT_EQ(expert_exchanges(Recompute::kSelective, false), 2);
  EXPECT_EQ(expert_exchanges(Recompute::kFull, true), 2);
  EXPECT_EQ(expert_exchanges(Recompute::kFull, false), 4);
}

}  // namespace
}  // namespace tombolo::planner
