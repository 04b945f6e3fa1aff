#include "planner/explain/what_if.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "planner/explain/replan.h"
#include "planner/planner.h"
#include "planner/testing/testing.h"
#include "topology/files/link_table.h"

namespace tombolo::planner {
namespace {

using testing::make_cluster;
using testing::small_model;
using topology::NicKind;

topology::ClusterFile clusters_to_change() {
  return make_cluster({{"a", 2, 1, NicKind::kInfiniBand, 1e9}, {"b", 2, 1, NicKind::kRoce, 1e9}}, 1e7, 1e-3);
}

topology::ClusterFile changed(const std::string& text) {
  return with_changes(clusters_to_change(), parse_changes(text));
}

void expect_refused(const std::string& text, const std::string& part) {
  try {
    changed(text);
    ADD_FAILURE() << text << " was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(WhatIf, LosesAHostWithItsLinks) {
  const auto cluster = changed("lose b1");
  EXPECT_EQ(cluster.hosts.size(), 3U);
  EXPECT_EQ(cluster.find_host("b1"), nullptr);
  for (const auto& link : cluster.links) EXPECT_TRUE(link.from_host != "b1" && link.to_host != "b1");
  EXPECT_EQ(changed("lose b").hosts.size(), 2U);
}

TEST(WhatIf, SetsTheLinkThatRoutingTakesInBothDirections) {
  const auto cluster = changed("link a b 8Mbit 5ms");
  for (const auto& [from, to] : {std::pair{"a1", "b0"}, std::pair{"b0", "a1"}}) {
    const auto link = topology::LinkTable(cluster).find(from, "eth", to, "eth");
    ASSERT_TRUE(link);
    EXPECT_DOUBLE_EQ(link->bytes_per_second, 1e6);
    EXPECT_DOUBLE_EQ(link->latency_seconds, 5e-3);
    EXPECT_FALSE(link->measured);
  }
  // Inside a cluster the fast NIC is the one that routing takes, and the latency stays.
  const auto inside = changed("link a0 a1 80Gbit");
  EXPECT_DOUBLE_EQ(topology::LinkTable(inside).find("a0", "fast", "a1", "fast")->bytes_per_second, 1e10);
  EXPECT_DOUBLE_EQ(topology::LinkTable(inside).find("a0", "eth", "a1", "eth")->bytes_per_second, 1e7);
}

TEST(WhatIf, TakesSharedLinksAlong) {
  auto cluster = clusters_to_change();
  cluster.shared_links = {
      {"a to b", {{"a0", "eth"}, {"a1", "eth"}}, {{"b0", "eth"}, {"b1", "eth"}}, 1e7},
      {"b0 out", {{"b0", "fast"}, {"b0", "eth"}}, {{"a0", "eth"}, {"b1", "fast"}, {"b1", "eth"}}, 2e9}};
  const auto after = [&](const std::string& text) {
    return with_changes(cluster, parse_changes(text)).shared_links;
  };
  const auto without = after("lose b1");
  ASSERT_EQ(without.size(), 2U);
  EXPECT_EQ(without[0].to, (std::vector<topology::NicName>{{"b0", "eth"}}));
  EXPECT_EQ(without[1].to, (std::vector<topology::NicName>{{"a0", "eth"}}));
  EXPECT_TRUE(after("lose b").empty());
  ASSERT_EQ(after("lose a").size(), 1U);
  // Of the first every pair is named, of the second not.
  const auto faster = after("link a b 8Gbit");
  EXPECT_DOUBLE_EQ(faster[0].bytes_per_second, 1e9);
  EXPECT_DOUBLE_EQ(faster[1].bytes_per_second, 2e9);
  EXPECT_DOUBLE_EQ(after("link a0 b0 8Gbit")[0].bytes_per_second, 1e7);
}

TEST(WhatIf, AddsALinkThatTheFileDoesNotHave) {
  auto cluster = clusters_to_change();
  std::erase_if(cluster.links,
                [](const auto& link) { return link.from_host == "a0" && link.to_host == "b0"; });
  const auto with = with_changes(cluster, parse_changes("link a0 b0 1Gbit"));
  const auto link = topology::LinkTable(with).find("a0", "eth", "b0", "eth");
  ASSERT_TRUE(link);
  EXPECT_DOUBLE_EQ(link->bytes_per_second, 1.25e8);
}

TEST(WhatIf, ChangesSpeedsAndTakesSeveralChangesInTurn) {
  const auto cluster = changed("speed b0 0.5; lose b0;speed b1 2");
  EXPECT_EQ(cluster.hosts.size(), 3U);
  EXPECT_DOUBLE_EQ(cluster.find_host("b1")->devices[0].flops_per_second, 2e9);
}

TEST(WhatIf, NamesWhatItCannotRead) {
  expect_refused("", "expected \"lose NAME\"");
  expect_refused("lose", "expected \"lose NAME\"");
  expect_refused("lose c9", "neither a host (a0, a1, b0, b1) nor a cluster (a, b)");
  expect_refused("lose a; lose b", "no host left");
  expect_refused("link a b fast", "rate");
  expect_refused("link a b 1Gbit 5", "latency \"5\"");
  expect_refused("link a b 1Gbit -5ms", "latency");
  expect_refused("link a0 a0 1Gbit", "one host only");
  expect_refused("speed a -1", "factor");
  expect_refused("speed a 1x", "factor");
  auto clusters = clusters_to_change();
  clusters.hosts[0].nics.pop_back();  // no Ethernet
  EXPECT_THROW(with_changes(clusters, parse_changes("link a0 b0 1Gbit")), Error);
}

Job job() {
  return {small_model(8), 16};
}

TEST(Replan, KeepsAPlanThatNothingBeats) {
  const auto cluster = clusters_to_change();
  const Plan running = make_plan(cluster, job(), {});
  const Replan next = replan(cluster, running, job(), {}, 1e9);
  EXPECT_TRUE(next.keep);
  EXPECT_DOUBLE_EQ(next.running_step, running.prediction.step_seconds);
  EXPECT_EQ(moving_between(running, running, cluster).bytes, 0U);
}

TEST(Replan, LeavesALostHostAndCountsWhatMoves) {
  const auto cluster = clusters_to_change();
  const Plan running = make_plan(cluster, job(), {});
  const auto left = with_changes(cluster, parse_changes("lose b1"));
  const Replan next = replan(left, running, job(), {}, 100);
  EXPECT_FALSE(next.keep);
  EXPECT_EQ(next.running_step, 0);
  EXPECT_NE(next.why_not.find("b1"), std::string::npos) << next.why_not;
  for (const auto& place : next.plan.ranks) EXPECT_NE(place.host, "b1");
  std::uint64_t sum = 0;
  for (const auto& part : next.moving.parts) {
    EXPECT_NE(part.from, "b1");
    sum += part.bytes;
  }
  EXPECT_EQ(sum, next.moving.bytes);
}

TEST(Replan, MovesEveryParameterWithItsMomentsOnce) {
  // One rank holds all; then another does.
  auto cluster = make_cluster({{"a", 2, 1}}, 1e6);
  const Plan from = testing::simple_plan(small_model(4), {"a0"}, 1, 1, 4);
  const Plan to = testing::simple_plan(small_model(4), {"a1"}, 1, 1, 4);
  const Moving moving = moving_between(from, to, cluster);
  const Model model = small_model(4);
  EXPECT_EQ(moving.bytes, model.parameters() * (4 + 8));
  EXPECT_EQ(moving.checkpoint_bytes, 0U);
  EXPECT_NEAR(moving.seconds, static_cast<double>(moving.bytes) / 1e6, 1e-6);
  // Nobody is left who holds it.
  const auto alone = with_changes(cluster, parse_changes("lose a0"));
  EXPECT_EQ(moving_between(from, to, alone).checkpoint_bytes, moving.bytes);
}

TEST(Replan, MovesOnlyWhereItPaysWithinTheStepsThatAreLeft) {
  const auto cluster = clusters_to_change();
  // A poor plan: neighbours of the pipeline in different clusters.
  PlanOptions poor;
  poor.strategy = "megatron";
  poor.rank_hosts = {"a0", "b0", "a1", "b1"};
  Job fixed = job();
  fixed.pipeline = 4;
  fixed.data = 1;
  const Plan running = make_plan(cluster, fixed, poor);
  const Replan soon = replan(cluster, running, job(), {}, 1e9);
  ASSERT_FALSE(soon.keep);
  ASSERT_GT(soon.steps_to_pay, 0);
  EXPECT_LT(soon.plan.prediction.step_seconds, soon.running_step);
  EXPECT_TRUE(replan(cluster, running, job(), {}, 0.9 * soon.steps_to_pay).keep);
  EXPECT_FALSE(replan(cluster, running, job(), {}, 1.1 * soon.steps_to_pay).keep);
}

}  // namespace
}  // namespace tombolo::planner
