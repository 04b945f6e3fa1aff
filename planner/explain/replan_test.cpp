#include "planner/explain/replan.h"

#include <gtest/gtest.h>

#include <cmath>

#include "planner/explain/what_if.h"
#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

using testing::make_cluster;
using testing::small_model;
using topology::NicKind;

topology::ClusterFile cluster_of_the_running_plan() {
  return make_cluster({{"a", 2, 1, NicKind::kInfiniBand, 1e9}, {"b", 2, 1, NicKind::kRoce, 1e9}}, 1e7, 1e-3);
}

Job replanned_job() {
  return {small_model(8), 16};
}

TEST(Replan, KeepsAPlanThatNothingBeats) {
  const auto cluster = cluster_of_the_running_plan();
  const Plan running = make_plan(cluster, replanned_job(), {});
  const Replan next = replan(cluster, running, replanned_job(), {}, 1e9);
  EXPECT_TRUE(next.keep);
  EXPECT_DOUBLE_EQ(next.running_step, running.prediction.step_seconds);
  EXPECT_EQ(moving_between(running, running, cluster).bytes, 0U);
}

TEST(Replan, APlanThatIsFoundAgainGoesOnThoughItsSecondsDifferInTheirLastDigits) {
  EXPECT_FALSE(pays_to_move(std::nextafter(0.67, 1), 0.67, 0, 1e9));
  EXPECT_FALSE(pays_to_move(0.67, 0.67, 0, 1e9));
  EXPECT_FALSE(pays_to_move(0.67, 0.68, 0, 1e9));
  EXPECT_TRUE(pays_to_move(0.67 * (1 + 1e-8), 0.67, 0, 1));
  EXPECT_TRUE(pays_to_move(0.75, 0.5, 10, 41));
  EXPECT_FALSE(pays_to_move(0.75, 0.5, 10, 40));
}

TEST(Replan, LeavesALostHostAndCountsWhatMoves) {
  const auto cluster = cluster_of_the_running_plan();
  const Plan running = make_plan(cluster, replanned_job(), {});
  const auto left = with_changes(cluster, parse_changes("lose b1"));
  const Replan next = replan(left, running, replanned_job(), {}, 100);
  EXPECT_FALSE(next.keep);
  EXPECT_EQ(next.running_step, 0);
  EXPECT_NE(next.why_not.find("b1"), std::string::npos) << next.why_not;
  for (const auto& place : next.plan.ranks) EXPECT_NE(place.host, "b1");
  std::uint64_t sum = 0;
  for (const auto& part : next.moving.transfers) {
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
  // No host that holds it is left.
  const auto alone = with_changes(cluster, parse_changes("lose a0"));
  EXPECT_EQ(moving_between(from, to, alone).checkpoint_bytes, moving.bytes);
}

TEST(Replan, MovesOnlyWhereItPaysWithinTheStepsThatAreLeft) {
  const auto cluster = cluster_of_the_running_plan();
  // A poor plan: neighbours of the pipeline in different clusters.
  PlanOptions poor;
  poor.strategy = "megatron";
  poor.rank_hosts = {"a0", "b0", "a1", "b1"};
  Job fixed = replanned_job();
  fixed.pipeline = 4;
  fixed.data = 1;
  const Plan running = make_plan(cluster, fixed, poor);
  const Replan soon = replan(cluster, running, replanned_job(), {}, 1e9);
  ASSERT_FALSE(soon.keep);
  ASSERT_GT(soon.steps_to_pay, 0);
  EXPECT_LT(soon.plan.prediction.step_seconds, soon.running_step);
  EXPECT_TRUE(replan(cluster, running, replanned_job(), {}, 0.9 * soon.steps_to_pay).keep);
  EXPECT_FALSE(replan(cluster, running, replanned_job(), {}, 1.1 * soon.steps_to_pay).keep);
}

TEST(Replan, ALayerComesFromTheHostThatSendsItFastest) {
  // a0 and a1 both hold everything; a1 is the nearer of the two to a2.
  auto cluster = make_cluster({{"a", 3, 1}}, 1e6);
  for (auto& link : cluster.links)
    if (link.from_host == "a1" && link.to_host == "a2") link.bytes_per_second = 4e6;
  const Plan from = testing::simple_plan(small_model(4), {"a0", "a1"}, 1, 2, 4);
  const Plan to = testing::simple_plan(small_model(4), {"a2"}, 1, 1, 4);
  const Moving moving = moving_between(from, to, cluster);
  ASSERT_EQ(moving.transfers.size(), 1u);
  EXPECT_EQ(moving.transfers[0].from, "a1");
  EXPECT_NEAR(moving.seconds, static_cast<double>(moving.bytes) / 4e6, 1e-6);
}

TEST(Replan, OnlyLayersThatAStageGainsMove) {
  const auto cluster = make_cluster({{"a", 2, 1}}, 1e6);
  const Plan from = testing::simple_plan(small_model(6), {"a0", "a1"}, 2, 1, 4);
  Plan to = from;
  to.pipelines = equal_pipelines(to.job, to_stages({4, 2}));
  const Moving moving = moving_between(from, to, cluster);
  EXPECT_EQ(moving.bytes, small_model(6).layer_parameters() * (4 + 8));
  ASSERT_EQ(moving.transfers.size(), 1u);
  EXPECT_EQ(moving.transfers[0].from, "a1");
  EXPECT_EQ(moving.transfers[0].to, "a0");
}

}  // namespace
}  // namespace tombolo::planner
