#include "planner/model/profiled_cluster.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "planner/planner.h"
#include "planner/strategies/strategy.h"
#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

using namespace testing;

Profile::Measurement took(const char* device, const char* kind, int rows, double forward, double backward) {
  return {device, kind, 1, rows, {forward, backward, 0, 1000}};
}

/// Two hosts whose devices have names of their own, and whose speed nobody knows.
topology::ClusterFile unknown_cluster() {
  auto cluster = make_cluster({{"a", 2}}, 1e9, 1e-5);
  for (auto& host : cluster.hosts) {
    host.devices[0].name = host.name;
    host.devices[0].flops_per_second = 0;
  }
  return cluster;
}

std::string profiled_problem(const Profile& profile, const Model& model,
                             const std::vector<std::string>& hosts) {
  try {
    profiled_cluster(profile, model, unknown_cluster(), hosts);
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
    return error.what();
  }
  return "nothing thrown";
}

TEST(ProfiledCluster, SpeedsAreWhatTheLayersAttained) {
  Profile profile;
  profile.measurements = {took("a0", "layer", 1, 9, 9), took("a0", "layer", 4, 0.01, 0.03),
                          took("", "layer", 4, 0.02, 0.06)};
  const Model model = small_model(4);
  const auto cluster = profiled_cluster(profile, model, unknown_cluster(), {});
  const double rate = 3 * 4 * model.layer_forward_flops() / 0.04;
  EXPECT_NEAR(cluster.hosts[0].devices[0].flops_per_second, rate, 1e-6 * rate);
  EXPECT_NEAR(cluster.hosts[1].devices[0].flops_per_second, rate / 2, 1e-6 * rate);
}

TEST(ProfiledCluster, NamesWhatContradictsAndWhatWasNotMeasured) {
  Profile profile;
  profile.measurements = {took("a0", "layer", 1, 1, 1)};
  EXPECT_EQ(profiled_problem(profile, small_model(4), {"a0"}), "nothing thrown");
  EXPECT_NE(profiled_problem(profile, small_model(4), {})
                .find("device \"a1\" (host a1) has no times of kind "
                      "\"layer\"; measured are: \"a0\""),
            std::string::npos);
  profile.measurements.push_back(took("a1", "layer", 1, 1, 1));
  profile.measurements.push_back(took("a1", "head", 1, 1, 1));
  EXPECT_NE(profiled_problem(profile, small_model(4), {})
                .find("kind \"head\" was measured, but not on device "
                      "\"a0\""),
            std::string::npos);
  profile.measurements.pop_back();
  profile.model = small_model(12);
  EXPECT_EQ(profiled_problem(profile, small_model(4), {}), "nothing thrown")
      << "how many layers is no matter";
  profile.model->hidden = 128;
  EXPECT_NE(
      profiled_problem(profile, small_model(4), {}).find("measured with width 128, but the model has 64"),
      std::string::npos);
}

TEST(ProfiledCluster, SaysWhichMicroBatchesAreBeyondWhatWasMeasured) {
  Profile profile;
  profile.measurements = {took("", "layer", 1, 1, 1), took("", "layer", 4, 1, 1)};
  EXPECT_EQ(extrapolation_note(profile, unknown_cluster(), {}, 4), "");
  EXPECT_EQ(extrapolation_note(profile, unknown_cluster(), {}, 3), "");
  EXPECT_NE(
      extrapolation_note(profile, unknown_cluster(), {}, 8).find("8 rows were not measured on device \"a0\""),
      std::string::npos);
}

// What a plan by measured times must be: possible, and shaped by what was measured.

Job profiled_job(const std::shared_ptr<Profile>& profile, int layers) {
  Job job;
  job.model = small_model(layers);
  job.global_batch = 8;
  job.profile = profile;
  return job;
}

Plan plan_by_profile(std::string_view strategy, const Job& job, int pipeline) {
  PlanOptions options;
  options.strategy = strategy;
  Job fixed = job;
  fixed.pipeline = pipeline;
  Plan plan = make_plan(profiled_cluster(*job.profile, job.model, unknown_cluster(), {}), fixed, options);
  // What is written is what is read: stages tile the layers, each slot is taken once.
  const Plan again = Plan::parse(JsonDocument::parse(plan.to_json().dump(), "plan"));
  EXPECT_EQ(again.pipelines, plan.pipelines);
  EXPECT_GT(plan.prediction.step_seconds, 0);
  EXPECT_EQ(plan.prediction.memory.size(), plan.ranks.size());
  return plan;
}

TEST(PlanByProfile, AHeavyHeadAndEmbeddingTakeLayersFromTheirStages) {
  auto profile = std::make_shared<Profile>();
  profile->measurements = {took("", "layer", 1, 0.01, 0.02), took("", "embedding", 1, 0, 0),
                           took("", "head", 1, 0.04, 0.08)};  // as long as four layers
  const Plan by_head = plan_by_profile("auto", profiled_job(profile, 12), 2);
  EXPECT_EQ(by_head.stage(0).layers, 8);
  EXPECT_EQ(by_head.stage(1).layers, 4);
  profile->measurements[1] = took("", "embedding", 1, 0.04, 0.08);
  profile->measurements[2] = took("", "head", 1, 0, 0);
  const Plan by_embedding = plan_by_profile("auto", profiled_job(profile, 12), 2);
  EXPECT_EQ(by_embedding.stage(0).layers, 4);
}

TEST(PlanByProfile, LayersOfDifferentKindsAreSplitByTheirTimes) {
  auto profile = std::make_shared<Profile>();
  profile->layers = {"heavy", "heavy", "light", "light", "light", "light", "light", "light"};
  profile->measurements = {took("", "heavy", 1, 0.03, 0.06), took("", "light", 1, 0.01, 0.02)};
  const Plan plan = plan_by_profile("auto", profiled_job(profile, 8), 2);
  EXPECT_EQ(plan.stage(0).layers, 2);
  EXPECT_EQ(plan.stage(1).layers, 6);
}

TEST(PlanByProfile, EveryStrategyHasAPlanWhereKindsDiffer) {
  auto profile = std::make_shared<Profile>();
  profile->layers = {"heavy", "heavy", "light", "light", "light", "light", "light", "light"};
  profile->measurements = {took("a0", "heavy", 1, 0.03, 0.06), took("a0", "light", 1, 0.01, 0.02),
                           took("a0", "head", 1, 0.02, 0.02),  took("a1", "heavy", 1, 0.06, 0.12),
                           took("a1", "light", 1, 0.02, 0.04), took("a1", "head", 1, 0.04, 0.04)};
  double best = 1e9;
  for (const std::string_view strategy : strategy_names()) {
    if (strategy == "auto") continue;
    const Plan plan = plan_by_profile(strategy, profiled_job(profile, 8), 0);
    best = std::min(best, plan.prediction.step_seconds);
  }
  EXPECT_LE(plan_by_profile("auto", profiled_job(profile, 8), 0).prediction.step_seconds, best * (1 + 1e-9));
}

TEST(PlanByProfile, ASingleStageUpdatesTheTiedEmbeddingOnce) {
  auto profile = std::make_shared<Profile>();
  Model model = small_model(2);
  const auto embedding = static_cast<double>(model.embedding_parameters()),
             copy = static_cast<double>(model.token_embedding_parameters()),
             norm = static_cast<double>(model.norm_parameters());
  // A nanosecond per parameter.
  profile->measurements = {{"", "layer", 1, 1, {0.01, 0.02, 0, 0}},
                           {"", "embedding", 1, 1, {0, 0, 1e-9 * embedding, 0}},
                           {"", "head", 1, 1, {0, 0, 1e-9 * (copy + norm), 0}}};
  Plan plan = simple_plan(model, {"a0"}, 1, 1, 1);
  plan.job.profile = profile;
  EXPECT_NEAR(simulate(plan, unknown_cluster()).step_seconds, 2 * 0.03 + 1e-9 * (embedding + norm), 1e-12);
}

}  // namespace
}  // namespace tombolo::planner
