#include "tools/demo/link_rates.h"

#include <gtest/gtest.h>

#include "planner/planner.h"
#include "tools/demo/layer_speed.h"
#include "tools/demo/options.h"
#include "tools/emulation/spec.h"

namespace tombolo::tools::demo {
namespace {

/// A profile of the demo's layers on a core with this many FLOP/s.
planner::Profile profile_of(double flops_per_second) {
  planner::Profile profile;
  profile.model = demo_job().model;
  const int rows = demo_job().micro_batch;
  const double forward = rows * demo_job().model.layer_forward_flops() / flops_per_second;
  for (const char* kind : {"layer", "embedding", "head"}) {
    planner::Profile::Measurement one;
    one.kind = kind;
    one.micro_batch = rows;
    const double share = kind == std::string("layer") ? 1 : 0.05;
    one.times = {share * forward, 1.3 * share * forward, 0.1 * share * forward, 0};
    profile.measurements.push_back(one);
  }
  return profile;
}

TEST(LinkRates, FollowTheComputingSpeed) {
  const LinkRates slow = choose_link_rates(profile_of(5e9), 2, {}),
                  fast = choose_link_rates(profile_of(80e9), 2, {});
  EXPECT_NEAR(fast.ethernet / slow.ethernet, 16, 1);
  EXPECT_DOUBLE_EQ(slow.fast, 8 * slow.ethernet);
  const LinkRates half = choose_link_rates(profile_of(5e9), 1, {});
  EXPECT_NEAR(slow.ethernet / half.ethernet, 2, 0.2) << "half of the cores";
  const LinkRates many = choose_link_rates(profile_of(5e9), 64, {}),
                  four = choose_link_rates(profile_of(5e9), 4, {});
  EXPECT_EQ(many.ethernet, four.ethernet) << "four ranks use no more than four cores";
}

/// The demo's claims, tested in the simulator. (Ten times the last speed would be limited by the system calls
/// between hosts.)
TEST(LinkRates, MakeHolmesPlanPayAtEverySpeed) {
  for (const double speed : {1e9, 1e10, 1e11, 3e11})
    for (const double cores : {0.5, 1.0, 2.0, 64.0}) {
      SCOPED_TRACE(testing::Message() << speed << " FLOP/s, " << cores << " cores");
      const auto profile = std::make_shared<const planner::Profile>(profile_of(speed));
      const LinkRates rates = choose_link_rates(*profile, cores, {});
      const emulation::Spec spec = emulation::Spec::from_text(rates.emulation());
      topology::ClusterFile cluster;
      cluster.shared_processor.emplace();
      cluster.shared_processor->cores = cores;
      for (const auto& from : spec.hosts) {
        topology::Host host;
        host.name = from.name;
        host.cluster = from.cluster;
        host.devices.resize(1);
        for (const auto& nic : from.nics) {
          topology::Nic one;
          one.name = nic.name;
          one.kind = nic.kind;
          one.fabric = nic.fabric;
          host.nics.push_back(one);
          for (const auto& to : spec.hosts)
            for (const auto& other : to.nics)
              if (to.name != from.name && nic.fabric == other.fabric)
                cluster.links.push_back(
                    {from.name, nic.name, to.name, other.name, 0.95 * nic.bits_per_second / 8, 1e-4, false});
        }
        cluster.shared_processor->hosts.push_back(host.name);
        cluster.hosts.push_back(host);
      }
      cluster = with_speed(std::move(cluster), *profile, demo_job().micro_batch);
      const auto step = [&](const char* strategy, const char* routing) {
        planner::Job job = demo_job();
        job.profile = profile;
        planner::PlanOptions options;
        options.strategy = strategy;
        options.routing = routing;
        options.rank_hosts = {"a0", "b0", "a1", "b1"};
        return planner::simulate(planner::make_plan(cluster, job, options), cluster).step_seconds;
      };
      const double shared = step("megatron", "shared");
      EXPECT_NEAR(shared / computing_seconds(*profile, cores), HolmesSetting::kStepOverComputing, 0.1);
      EXPECT_GT(shared / step("holmes", "per-peer"), 1.4);
    }
}

TEST(LinkRates, AreThoseThatWereAskedFor) {
  const LinkRates rates = choose_link_rates(profile_of(1e10), 2, 1e8);
  EXPECT_TRUE(rates.given);
  EXPECT_EQ(rates.emulation(), "holmes:fast=800000kbit,slow=100000kbit");
  EXPECT_NE(describe(rates).find("100 Mbit/s, as --ethernet asks for"), std::string::npos) << describe(rates);
}

}  // namespace
}  // namespace tombolo::tools::demo
