#include "planner/cost/border.h"

#include <gtest/gtest.h>

#include "planner/simulate/simulator.h"
#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

Job job_of(Framework framework, bool sequence_parallel) {
  Job job;
  job.framework = framework;
  job.sequence_parallel = sequence_parallel;
  return job;
}

TEST(Border, MegatronSendsACopyToEachRankUnlessTheSequenceIsDivided) {
  EXPECT_EQ(border_bytes(job_of(Framework::kMegatron, false), 100, 4, 4), 400);
  EXPECT_EQ(border_bytes(job_of(Framework::kMegatron, false), 100, 2, 4), 400);
  EXPECT_EQ(border_bytes(job_of(Framework::kMegatron, true), 100, 4, 4), 100);
  EXPECT_EQ(border_gather_seconds(job_of(Framework::kMegatron, true), 100, 4, 10), 0);
}

TEST(Border, DeepSpeedSendsPartsAndGathersThem) {
  for (const bool sequence_parallel : {false, true}) {
    const Job job = job_of(Framework::kDeepSpeed, sequence_parallel);
    EXPECT_EQ(border_bytes(job, 100, 4, 4), 100);
    EXPECT_DOUBLE_EQ(border_gather_seconds(job, 100, 4, 10), 7.5) << "three quarters come from the others";
    EXPECT_EQ(border_gather_seconds(job, 100, 1, 10), 0) << "one rank has the whole";
    EXPECT_EQ(border_gather_seconds(job, 100, 4, 0), 0) << "an unknown rate";
  }
}

TEST(Border, TheSimulatorSendsAndGathersAsTheFrameworkDoes) {
  // Two stages of two ranks each on a host of their own; nothing computes in a noticeable time.
  auto cluster = testing::make_cluster({{"a", 2, 2}}, 1e6);
  for (auto& host : cluster.hosts) {
    host.device_bytes_per_second = 1e5;
    for (auto& device : host.devices) device.flops_per_second = 1e18;
  }
  Plan plan = testing::simple_plan(testing::small_model(2), {"a0", "a0", "a1", "a1"}, 2, 1, 1);
  plan.job.tensor = 2;
  plan.pipelines.front().stages.front().tensor = plan.pipelines.front().stages.back().tensor = 2;
  for (int rank = 0; rank < 4; ++rank)
    plan.ranks[static_cast<std::size_t>(rank)] = {rank < 2 ? "a0" : "a1", rank % 2, rank / 2, 0, rank % 2};
  plan.job.model.tied_embeddings = false;
  const double bytes = plan.job.model.boundary_bytes();
  const auto sent = [&](Framework framework) {
    plan.job.framework = framework;
    const Simulation simulation = simulate(plan, cluster);
    double all = 0;
    for (const LinkBytes& link : simulation.links) all += link.bytes;
    return std::pair(all, simulation.step_seconds);
  };
  const auto [copies, copied] = sent(Framework::kMegatron);
  EXPECT_DOUBLE_EQ(copies, 2 * 2 * bytes) << "both ways";
  const auto [parts, partitioned] = sent(Framework::kDeepSpeed);
  EXPECT_DOUBLE_EQ(parts, 2 * bytes);
  // Layers reduce among their two ranks alike in both. Beyond that: the bytes, and half of them gathered.
  EXPECT_NEAR(partitioned - copied, 2 * (bytes * 0.5 / 1e5 - bytes / 1e6), 1e-6);
}

}  // namespace
}  // namespace tombolo::planner
