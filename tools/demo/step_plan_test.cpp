#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "tools/cli/testing.h"
#include "tools/demo/layer_speed.h"
#include "tools/demo/steps.h"
#include "tools/demo/testing_session.h"

namespace tombolo::tools::demo {
namespace {

/// The emulated hosts, as if probed: 1 MB/s over Ethernet and 1 GB/s inside a cluster; layers that take 10
/// ms.
class DemoPlans : public DemoSession {
 protected:
  DemoPlans() {
    planner::Profile profile;
    profile.model = demo_job().model;
    for (const char* kind : {"layer", "embedding", "head"})
      profile.measurements.push_back({"", kind, 1, demo_job().micro_batch, {0.003, 0.006, 0.001, 0}});
    report_.profile = std::make_shared<const planner::Profile>(profile);
    report_.cluster = emulation_->cluster();
    auto& cluster = report_.cluster;
    for (const auto& from : cluster.hosts)
      for (const auto& to : cluster.hosts) {
        if (from.name == to.name) continue;
        cluster.links.push_back({from.name, "eth0", to.name, "eth0", 1e6, 1e-4, true});
        if (from.cluster == to.cluster)
          cluster.links.push_back({from.name, "fast0", to.name, "fast0", 1e9, 1e-5, true});
      }
    cluster = with_speed(cluster, profile, demo_job().micro_batch);
  }
  const std::vector<std::string> rank_hosts_{"a0", "b0", "a1", "b1"};
  Report report_;
};

TEST_F(DemoPlans, AreThreeWaysOfOneJob) {
  plan(session_, rank_hosts_, report_);
  ASSERT_EQ(report_.runs.size(), 3U);
  const auto& [one, per_peer, holmes] = std::tie(report_.runs[0], report_.runs[1], report_.runs[2]);
  EXPECT_EQ(one.name, "one-communicator");
  EXPECT_EQ(one.plan.routing, "shared");
  EXPECT_EQ(per_peer.plan.routing, "per-peer");
  EXPECT_EQ(per_peer.plan.strategy, one.plan.strategy);
  EXPECT_EQ(holmes.plan.strategy, "holmes");
  // Default order gives each stage a rank of either cluster; Holmes' reduces gradients inside a cluster.
  for (const auto& place : one.plan.ranks) EXPECT_EQ(place.stage, place.host.ends_with('1') ? 1 : 0);
  std::set<char> of_stage_zero;
  for (const auto& place : holmes.plan.ranks)
    if (place.stage == 0) of_stage_zero.insert(place.host.front());
  EXPECT_EQ(of_stage_zero.size(), 1U);
  EXPECT_LT(holmes.predicted.step_seconds, per_peer.predicted.step_seconds);
  EXPECT_LE(per_peer.predicted.step_seconds, one.predicted.step_seconds);
  for (const auto& run : report_.runs) {
    const auto saved = planner::Plan::load(session_.file("plan-" + run.name + ".json"));
    EXPECT_EQ(saved.to_json(), run.plan.to_json()) << run.name;
    EXPECT_EQ(saved.job.global_batch, demo_job().global_batch);
    EXPECT_GT(run.predicted.spans.size(), 0U) << "for the timeline";
  }
  const std::string text = shown();
  EXPECT_MENTIONS(text, "a0+b0 (4 layers)");
  EXPECT_MENTIONS(text, "Holmes plan, per peer");
}

TEST_F(DemoPlans, FiveOthersDifferInLayout) {
  plan_more(session_, rank_hosts_, report_);
  ASSERT_EQ(report_.more.size(), 5U);
  std::set<std::string> names;
  for (const auto& run : report_.more) {
    names.insert(run.name);
    EXPECT_TRUE(std::filesystem::exists(session_.file("plan-" + run.name + ".json"))) << run.name;
    EXPECT_EQ(run.plan.ranks.size(), 4U);
  }
  EXPECT_EQ(names.size(), 5U);
  EXPECT_EQ(report_.more[0].plan.pipeline_size(), 4);
  EXPECT_EQ(report_.more[1].plan.data_size(), 4);
  EXPECT_EQ(report_.more[3].plan.job.micro_batch, 16);
  EXPECT_EQ(report_.more[4].plan.routing, "shared");
}

TEST_F(DemoPlans, EndAtTheNextPlanAfterAnInterrupt) {
  std::raise(SIGINT);
  EXPECT_THROW(plan(session_, rank_hosts_, report_), Interrupted);
  EXPECT_EQ(report_.runs.size(), 1U);
}

}  // namespace
}  // namespace tombolo::tools::demo
