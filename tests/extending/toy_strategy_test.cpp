// The toy strategy of docs/extending.md does what the text says of it.
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "planner/planner.h"
#include "planner/simulate/simulator.h"
#include "planner/strategies/strategy.h"
#include "planner/testing/testing.h"

namespace tombolo::planner {

extern const Strategy toy_strategy;

namespace {

Job job_of(int rows) {
  Job job;
  job.model = testing::small_model(4);
  job.global_batch = rows;
  return job;
}

std::string error_of(const topology::ClusterFile& cluster, const Job& job, const PlanOptions& options = {}) {
  try {
    make_plan(cluster, job, options, toy_strategy);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(ToyStrategy, EveryRankTrainsTheWholeModel) {
  const auto cluster = testing::make_cluster({{"a", 3, 2}}, 1e6);
  const Plan plan = make_plan(cluster, job_of(12), {}, toy_strategy);
  EXPECT_EQ(plan.strategy, "toy");
  EXPECT_EQ(plan.ranks.size(), 6u);
  EXPECT_EQ(plan.data_size(), 6);
  EXPECT_EQ(plan.pipeline_size(), 1);
  EXPECT_EQ(plan.stage(0).layers, 4);
  EXPECT_NEAR(simulate(plan, cluster).step_seconds, plan.prediction.step_seconds, 1e-12);
}

TEST(ToyStrategy, WhatTheRestOfThePlannerDoesForIt) {
  const auto cluster = testing::make_cluster({{"a", 3, 1}}, 1e6);
  // Checks by capability.
  PlanOptions options;
  options.may_leave_out = true;
  EXPECT_NE(error_of(cluster, job_of(12), options).find("strategy toy gives every rank a place"),
            std::string::npos);
  // An error that says what would help.
  Job three_stages = job_of(12);
  three_stages.pipeline = 3;
  EXPECT_NE(error_of(cluster, three_stages).find("strategy toy finds no plan that fits; holmes does"),
            std::string::npos)
      << error_of(cluster, three_stages);
  // Notes of what the prediction assumes, and the groups.
  const Plan plan = make_plan(cluster, job_of(12), {}, toy_strategy);
  EXPECT_EQ(plan.notes.back(),
            "the cluster file does not say how much memory every device has: that was not checked");
  ASSERT_EQ(plan.groups.size(), 1u);
  EXPECT_EQ(plan.groups[0].ranks, (std::vector<int>{0, 1, 2}));
}

}  // namespace
}  // namespace tombolo::planner
