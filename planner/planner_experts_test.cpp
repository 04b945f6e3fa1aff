// Plans of models with mixtures of experts, from the job to the launch script.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "planner/cost/memory.h"
#include "planner/explain/reasons.h"
#include "planner/explain/replan.h"
#include "planner/planner.h"
#include "planner/testing/testing_launch.h"
#include "planner/testing/testing_search.h"

namespace tombolo::planner {
namespace {

using testing::gpu_cluster;
using testing::mixture_model;
using testing::simple_plan;

Job expert_job(int rows) {
  Job job;
  job.model = mixture_model(2);
  job.model.experts = 8;
  job.model.bytes_per_value = 2;
  job.global_batch = rows;
  job.framework = Framework::kMegatron;
  job.reserve_bytes = 0;
  job.expert_parallel = 0;
  return job;
}

std::uint64_t most_needed(const Plan& plan) {
  std::uint64_t most = 0;
  for (const RankMemory& rank : plan.prediction.memory) most = std::max(most, rank.total);
  return most;
}

TEST(PlannerExperts, AreDividedWhereAllOfThemFitNowhere) {
  auto cluster = gpu_cluster({{"a", 2, 4}}, 1e9);
  Job job = expert_job(16);
  job.pipeline = 1;
  job.micro_batch = 1;
  std::map<int, Plan> fixed;
  for (const int degree : {1, 2, 4, 8}) {
    job.expert_parallel = degree;
    fixed[degree] = make_plan(cluster, job, {});
    EXPECT_EQ(fixed[degree].job.expert_parallel, degree);
    EXPECT_EQ(std::ranges::count(fixed[degree].groups, "expert", &Group::kind), degree > 1 ? 8 / degree : 0);
  }
  job.expert_parallel = 0;
  // With room for everything the fastest degree is taken.
  double best = fixed[1].prediction.step_seconds;
  for (const auto& [degree, plan] : fixed) best = std::min(best, plan.prediction.step_seconds);
  EXPECT_NEAR(make_plan(cluster, job, {}).prediction.step_seconds, best, 1e-9 * best);
  ASSERT_LT(most_needed(fixed[4]), most_needed(fixed[2]));
  for (auto& host : cluster.hosts)
    for (auto& device : host.devices) device.memory_bytes = static_cast<double>(most_needed(fixed[4]));
  const Plan tight = make_plan(cluster, job, {});
  EXPECT_GE(tight.job.expert_parallel, 4);
  EXPECT_LE(most_needed(tight), most_needed(fixed[4]));
  // And whoever cannot divide them has no plan.
  job.expert_parallel = 1;
  EXPECT_THROW(make_plan(cluster, job, {}), Error);
  job.expert_parallel = 0;
  job.framework = Framework::kDeepSpeed;
  EXPECT_THROW(make_plan(cluster, job, {}), Error);
}

TEST(PlannerExperts, OfADegreeThatDoesNotDivideHaveNoPlan) {
  const auto cluster = gpu_cluster({{"a", 2, 3}}, 1e9);
  const auto why = [&](int degree) -> std::string {
    Job job = expert_job(12);
    job.expert_parallel = degree;
    try {
      make_plan(cluster, job, {});
    } catch (const Error& error) {
      return error.what();
    }
    return "a plan";
  };
  EXPECT_MENTIONS(why(3), "8 experts do not divide among 3 replicas; take a divisor of 8");
  EXPECT_MENTIONS(why(4), "do not divide into groups of 4 that divide the 8 experts of a layer");
  EXPECT_EQ(why(2), "a plan");
  EXPECT_EQ(expert_degrees(expert_job(1), 12), (std::vector{1, 2, 4}));
  Job dense = expert_job(1);
  dense.model = testing::small_model(2);
  EXPECT_EQ(expert_degrees(dense, 12), std::vector{1});
}

TEST(PlannerExperts, AreNotDividedWhereSomeLayersAreComputedAgain) {
  const auto cluster = gpu_cluster({{"a", 2, 4}}, 1e9);
  Job job = expert_job(16);
  job.pipeline = 1;
  job.recompute = Recompute::kFull;
  EXPECT_GT(expert_degrees(job, 8).size(), 1u);
  job.recompute_layers = 1;
  EXPECT_EQ(expert_degrees(job, 8), std::vector{1});
  const Plan plan = make_plan(cluster, job, {});
  EXPECT_EQ(plan.job.recompute_layers, 1);
  EXPECT_EQ(Plan::parse(JsonDocument::parse(plan.to_json().dump(), "plan.json")).job.expert_parallel, 1);
}

TEST(PlannerExperts, AreAmongTheReasons) {
  const auto cluster = gpu_cluster({{"a", 1, 4}}, 1e9);
  Job job = expert_job(8);
  job.pipeline = 1;
  job.expert_parallel = 4;
  Plan plan = make_plan(cluster, job, {});
  EXPECT_MENTIONS(
      fmt::format("{}", fmt::join(reasons_of(plan, cluster), "\n")),
      "4 replicas divide the 8 experts of a layer, 2 on each (expert parallelism): with all on each, "
      "a step would take ");
  job.expert_parallel = 1;
  plan = make_plan(cluster, job, {});
  EXPECT_MENTIONS(fmt::format("{}", fmt::join(reasons_of(plan, cluster), "\n")), "expert parallelism");
}

TEST(PlannerExperts, MoveWhereAnotherReplicaIsToHoldThem) {
  const auto cluster = gpu_cluster({{"a", 4, 1}}, 1e9);
  Plan plan = simple_plan(expert_job(8).model, {"a0", "a1", "a2", "a3"}, 1, 4, 2);
  plan.job.framework = Framework::kMegatron;
  plan.job.expert_parallel = 2;
  EXPECT_EQ(moving_between(plan, plan, cluster).bytes, 0u);
  Plan exchanged = plan;
  std::swap(exchanged.ranks[0].replica, exchanged.ranks[1].replica);
  const Model& model = plan.job.model;
  // Whoever holds other experts than before gets the mixtures' layers: values of 2 bytes, and 12 of state.
  EXPECT_EQ(moving_between(plan, exchanged, cluster).bytes,
            2 * 2 * model.layer_parameters(1, Mlp::kMixture, 2) * (2 + 12));
  Plan same = plan;
  std::swap(same.ranks[0].replica, same.ranks[2].replica);
  EXPECT_EQ(moving_between(plan, same, cluster).bytes, 0u);
}

}  // namespace
}  // namespace tombolo::planner
