#include "planner/strategies/strategy.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/randomized_test.h"
#include "planner/testing/testing_strategies.h"

namespace tombolo::planner {
namespace {

using namespace testing;

TEST(Strategies, AreNamed) {
  for (const Strategy* strategy : strategies()) EXPECT_EQ(&strategy_named(strategy->name), strategy);
  EXPECT_NO_THROW(strategy_named(PlanOptions().strategy));
  try {
    strategy_named("best");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("take holmes, megatron, pipette, flashflex or auto"),
              std::string::npos)
        << error.what();
  }
}

TEST(Strategies, RejectWhatFitsNowhere) {
  auto cluster = make_cluster({{"a", 2, 1, topology::NicKind::kTcp, 0, 1e9, 1000}}, 1e9);
  Job job;
  job.model = small_model(4);
  job.global_batch = 4;
  for (const std::string_view strategy : strategy_names()) {
    PlanOptions options;
    options.strategy = strategy;
    try {
      make_plan(cluster, job, options);
      ADD_FAILURE() << strategy;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("no plan fits in memory"), std::string::npos) << error.what();
    }
  }
}

/// Random clusters, on which strategies would use what they can do.
TEST(Strategies, KeepToTheirCapabilities) {
  std::mt19937_64 random(test_seed());
  for (int trial = 0; trial < test_rounds(12); ++trial) {
    const topology::ClusterFile cluster = random_cluster(random, 2 + static_cast<int>(random() % 4));
    const Job job = random_job(random, 4, 6);
    for (const Strategy* strategy : strategies()) {
      SCOPED_TRACE(fmt::format("{}, trial {}", strategy->name, trial));
      PlanOptions options;
      options.strategy = strategy->name;
      options.may_leave_out = strategy->capabilities.leaves_devices_out;
      Plan plan;
      try {
        plan = make_plan(cluster, job, options);
      } catch (const Error&) {
        continue;  // no layout divides
      }
      EXPECT_EQ(plan.strategy, strategy->name);
      const Pipeline& first = plan.pipelines.front();
      for (const Pipeline& pipeline : plan.pipelines) {
        if (!strategy->capabilities.uneven_replicas) {
          EXPECT_EQ(pipeline, first);
        }
        for (const Stage& stage : pipeline.stages)
          if (!strategy->capabilities.tensor_degree_per_type) {
            EXPECT_EQ(stage.tensor, first.stages.front().tensor);
          }
      }
      if (!strategy->capabilities.leaves_devices_out && traits(job.framework).unequal_nodes) {
        EXPECT_TRUE(plan.left_out.empty());
      }
    }
  }
}

TEST(Strategies, WithoutTheCapabilityRefuseToLeaveDevicesOut) {
  const auto cluster = make_cluster({{"a", 2, 1}}, 1e8);
  Job job;
  job.model = small_model(4);
  job.global_batch = 4;
  for (const std::string_view name : strategy_names({&StrategyCapabilities::leaves_devices_out}, false)) {
    PlanOptions options;
    options.strategy = name;
    options.may_leave_out = true;
    try {
      make_plan(cluster, job, options);
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("take flashflex or auto"), std::string::npos) << error.what();
    }
  }
}

TEST(Strategies, AreListedByWhatTheyCan) {
  using Names = std::vector<std::string_view>;
  EXPECT_EQ(strategy_names({&StrategyCapabilities::asks_others}), Names{"auto"});
  EXPECT_EQ(
      strategy_names({&StrategyCapabilities::uneven_replicas, &StrategyCapabilities::tensor_degree_per_type},
                     false),
      (Names{"holmes", "megatron", "pipette"}));
  EXPECT_EQ(alternatives({"one"}), "one");
  EXPECT_EQ(alternatives({"one", "two", "three"}), "one, two or three");
}

TEST(Strategies, NoteWhatThePredictionAssumesOnce) {
  auto cluster = make_cluster({{"a", 2, 1, topology::NicKind::kInfiniBand, 1e9}}, 1e8);
  cluster.emulated = true;
  Job job;
  job.model = small_model(4);
  job.global_batch = 4;
  for (const std::string_view name : strategy_names()) {
    PlanOptions options;
    options.strategy = name;
    options.routing = "shared";
    const Plan plan = make_plan(cluster, job, options);
    for (const char* note : {"shared routing: everything over infiniband, the best kind that all ranks share",
                             "the cluster is emulated"})
      EXPECT_EQ(std::ranges::count(plan.notes, note), 1) << name << ": " << note;
  }
}

}  // namespace
}  // namespace tombolo::planner
