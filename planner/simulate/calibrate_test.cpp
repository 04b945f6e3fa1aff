#include "planner/simulate/calibrate.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

using namespace testing;

/// Four hosts of which the second cluster computes half as fast, with memory of a known speed.
topology::ClusterFile real_cluster(std::optional<double> cores = std::nullopt) {
  auto cluster = make_cluster(
      {{"a", 2, 1, topology::NicKind::kTcp, 0, 2e9}, {"b", 2, 1, topology::NicKind::kTcp, 0, 1e9}}, 1e8,
      1e-4);
  for (auto& host : cluster.hosts) host.devices[0].memory_bytes_per_second = 3e9;
  if (cores) cluster.shared_processor = topology::SharedProcessor{{"a0", "a1", "b0", "b1"}, *cores};
  return cluster;
}

/// The same with speeds that nobody has measured well.
topology::ClusterFile guessed_cluster(std::optional<double> cores = std::nullopt) {
  auto cluster = real_cluster(cores);
  for (auto& host : cluster.hosts) {
    host.devices[0].flops_per_second = 3e9;
    host.devices[0].memory_bytes_per_second = 9e9;
  }
  return cluster;
}

Plan pipelined_plan() {
  return simple_plan(small_model(8), {"a0", "a1", "b0", "b1"}, 2, 2, 4);
}

Plan deep_plan() {
  return simple_plan(small_model(8), {"a0", "b0", "a1", "b1"}, 4, 1, 8);
}

/// What a run would measure if the simulator were right about this cluster.
MeasuredRun run_on(const topology::ClusterFile& cluster, const Plan& plan) {
  const Simulation simulation = simulate(plan, cluster);
  MeasuredRun run;
  run.step_seconds = {simulation.step_seconds};
  const auto seconds = rank_seconds(simulation, plan);
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank)
    run.ranks.push_back(
        {plan.ranks[rank].host, plan.ranks[rank].stage, plan.ranks[rank].replica, seconds[rank], 0, 0, {}});
  run.links = simulation.links;
  return run;
}

double step_of(const Plan& plan, const topology::ClusterFile& cluster) {
  return simulate(plan, cluster, {.spans = false}).step_seconds;
}

TEST(Calibrate, FindsTheSpeedsOfEveryDeviceAndPredictsOtherPlans) {
  const auto real = real_cluster(), guessed = guessed_cluster();
  const Plan plan = pipelined_plan();
  const Calibration found = calibrate(plan, guessed, run_on(real, plan));
  for (std::size_t host = 0; host < 4; ++host) {
    const auto &wanted = real.hosts[host].devices[0], &seen = found.cluster.hosts[host].devices[0];
    EXPECT_NEAR(seen.flops_per_second / wanted.flops_per_second, 1, 0.01) << real.hosts[host].name;
    EXPECT_NEAR(seen.memory_bytes_per_second / wanted.memory_bytes_per_second, 1, 0.01);
  }
  ASSERT_EQ(found.corrections.size(), 4u);
  EXPECT_NEAR(found.corrections[0].backward, 1.5, 0.02) << found.corrections[0].host;
  EXPECT_NEAR(found.corrections[3].backward, 3, 0.03);
  EXPECT_NEAR(found.calibrated.step_seconds / step_of(plan, real), 1, 0.01);
  const double wanted = step_of(deep_plan(), real);
  EXPECT_GT(std::abs(step_of(deep_plan(), guessed) / wanted - 1), 0.2);
  EXPECT_NEAR(step_of(deep_plan(), found.cluster) / wanted, 1, 0.01);
}

TEST(Calibrate, KnowsThatRanksOnASharedProcessorSlowEachOther) {
  const auto real = real_cluster(2.0), guessed = guessed_cluster(2.0);
  const Plan plan = pipelined_plan();
  const Calibration found = calibrate(plan, guessed, run_on(real, plan));
  // Which of two ranks that share is slow in itself cannot be told exactly; what their steps take can.
  EXPECT_NEAR(found.calibrated.step_seconds / step_of(plan, real), 1, 0.02);
  EXPECT_NEAR(step_of(deep_plan(), found.cluster) / step_of(deep_plan(), real), 1, 0.1);
}

TEST(Calibrate, GoesByProcessorTimeWhereRanksShareAProcessor) {
  const auto cluster = real_cluster(2.0);
  Plan plan = pipelined_plan(), other = deep_plan();
  const auto profile_of = [](double forward, double backward, double sending) {
    auto profile = std::make_shared<Profile>();
    profile->measurements = {{"", "layer", 1, 1, {forward, backward, 0.002, 100}}};
    profile->sending_seconds_per_byte = sending;
    return profile;
  };
  plan.job.profile = other.job.profile = profile_of(0.02, 0.03, 1e-8);
  MeasuredRun run = run_on(cluster, plan);
  const double wanted = step_of(other, cluster);
  auto apart = cluster;
  apart.shared_processor.reset();
  const auto alone = rank_seconds(simulate(plan, apart), plan);
  double bytes = 0;
  for (const LinkBytes& link : run.links) bytes += link.bytes;
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank)
    run.ranks[rank].processor = ProcessorSeconds{alone[rank], 1e-8 * bytes / 4};
  plan.job.profile = other.job.profile = profile_of(0.01, 0.04, 0);
  const Calibration found = calibrate(plan, cluster, run);
  ASSERT_TRUE(found.profile);
  EXPECT_NEAR(found.corrections.at(0).forward, 2, 1e-3);
  EXPECT_NEAR(found.corrections.at(0).backward, 0.75, 1e-3);
  EXPECT_NEAR(found.profile->sending_seconds_per_byte, 1e-8, 1e-12);
  other.job.profile = found.profile;
  EXPECT_NEAR(step_of(other, cluster) / wanted, 1, 1e-3) << "the deep plan's ranks share it otherwise";

  // Steps that take longer than all this: the cores attain less, for every pass.
  for (double& seconds : run.step_seconds) seconds *= 1.1;
  const Calibration slower = calibrate(plan, cluster, run);
  EXPECT_NEAR(slower.calibrated.step_seconds / run.median_step(), 1, 1e-3);
  const auto& both = slower.corrections.at(0);
  EXPECT_GT(both.forward, 2.05);
  EXPECT_NEAR(both.forward / both.backward, 2 / 0.75, 1e-2);

  // Steps that take less: cores that were counted as fewer than they were.
  for (double& seconds : run.step_seconds) seconds *= 0.9 / 1.1;
  const Calibration faster = calibrate(plan, cluster, run);
  EXPECT_NEAR(faster.calibrated.step_seconds / run.median_step(), 1, 1e-3);
  EXPECT_LT(faster.corrections.at(0).forward, 1.95);
}

TEST(Calibrate, CorrectsAProfileByDeviceAndPass) {
  auto cluster = real_cluster();
  for (auto& host : cluster.hosts) host.devices[0].name = host.cluster;
  Plan plan = pipelined_plan(), other = deep_plan();
  const auto profile_of = [](double slow_forward, double slow_backward, double update) {
    auto profile = std::make_shared<Profile>();
    profile->measurements = {{"a", "layer", 1, 1, {0.01, 0.02, update, 100}},
                             {"a", "head", 1, 1, {0.004, 0.005, update, 0}},
                             {"", "layer", 1, 1, {slow_forward, slow_backward, update, 100}},
                             {"", "head", 1, 1, {0.004, 0.005, update, 0}}};
    return profile;
  };
  plan.job.profile = other.job.profile = profile_of(0.03, 0.04, 0.002);
  const MeasuredRun run = run_on(cluster, plan);
  const double wanted = step_of(other, cluster);
  plan.job.profile = other.job.profile = profile_of(0.02, 0.05, 0.001);
  const Calibration found = calibrate(plan, cluster, run);
  ASSERT_TRUE(found.profile);
  const auto slow = found.profile->times("b", "layer", 1, 1), fast = found.profile->times("a", "layer", 1, 1);
  ASSERT_TRUE(slow && fast);
  // The head was right, so that what the layers were off by is spread over both.
  EXPECT_NEAR(slow->forward, 0.03, 0.001);
  EXPECT_NEAR(slow->backward, 0.04, 0.001);
  EXPECT_NEAR(fast->forward, 0.01, 0.0002);
  EXPECT_NEAR(fast->update, 0.002, 0.0001);
  EXPECT_EQ(slow->kept_bytes, 100u);
  EXPECT_TRUE(found.corrections[1].host.empty());
  EXPECT_EQ(found.corrections[1].name, "b");
  other.job.profile = found.profile;
  EXPECT_NEAR(step_of(other, cluster) / wanted, 1, 0.02);
  EXPECT_TRUE(found.profile->times("c", "layer", 1, 1)) << "what was measured on any device stays";
}

TEST(Calibrate, DevicesThatThePlanDoesNotUseAreCorrectedAsThoseOfTheirName) {
  const auto real = real_cluster();
  auto guessed = guessed_cluster();
  guessed.hosts[3].devices[0].name = "another";
  guessed.hosts[3].devices[0].memory_bytes_per_second = 0;
  const Plan plan = simple_plan(small_model(8), {"a0", "a1"}, 2, 1, 4);
  const Calibration found = calibrate(plan, guessed, run_on(real, plan));
  EXPECT_NEAR(found.cluster.hosts[2].devices[0].flops_per_second, 2e9, 2e7);
  EXPECT_EQ(found.cluster.hosts[3].devices[0].flops_per_second, 3e9);
  EXPECT_EQ(found.cluster.hosts[3].devices[0].memory_bytes_per_second, 0) << "still unknown";
}

TEST(Calibrate, FindsTheSpeedOfAMemoryThatNobodyKnew) {
  const auto real = real_cluster();
  auto guessed = guessed_cluster();
  for (auto& host : guessed.hosts) host.devices[0].memory_bytes_per_second = 0;
  const Plan plan = pipelined_plan();
  const Calibration found = calibrate(plan, guessed, run_on(real, plan));
  EXPECT_EQ(found.predicted_ranks[0].update, 0);
  EXPECT_NEAR(found.cluster.hosts[0].devices[0].memory_bytes_per_second, 3e9, 3e7);
}

TEST(Calibrate, SpreadsTheErrorOfARunOfWhichOnlyTheStepsAreKnown) {
  const auto guessed = guessed_cluster();
  const Plan plan = pipelined_plan();
  MeasuredRun run;
  run.step_seconds = {1.5 * step_of(plan, guessed)};
  const Calibration found = calibrate(plan, guessed, run);
  EXPECT_NEAR(found.calibrated.step_seconds, run.step_seconds[0], 0.002 * run.step_seconds[0]);
  EXPECT_NEAR(step_of(plan, found.cluster), run.step_seconds[0], 0.002 * run.step_seconds[0]);
  ASSERT_EQ(found.corrections.size(), 4U);
  for (const Correction& one : found.corrections) {
    EXPECT_GT(one.forward, 1.5) << "the network is as fast as before";
    EXPECT_EQ(one.forward, found.corrections[0].forward);
    EXPECT_EQ(one.backward, one.forward);
    EXPECT_EQ(one.update, 1);
  }
  run.global_batch = plan.job.global_batch + 1;
  EXPECT_THROW((void)calibrate(plan, guessed, run), Error);
}

TEST(Calibrate, RefusesARunOfAnotherPlan) {
  const auto cluster = real_cluster();
  const auto message_of = [&](const Plan& plan, const MeasuredRun& run) {
    try {
      calibrate(plan, cluster, run);
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
      return std::string(error.what());
    }
    return std::string("nothing thrown");
  };
  const MeasuredRun run = run_on(cluster, pipelined_plan());
  EXPECT_NE(message_of(deep_plan(), run).find("rank 1 was stage 0, replica 1 on host a1"), std::string::npos);
  MeasuredRun shorter = run;
  shorter.ranks.pop_back();
  EXPECT_NE(message_of(pipelined_plan(), shorter).find("3 ranks, but the plan has 4"), std::string::npos);
}

}  // namespace
}  // namespace tombolo::planner
