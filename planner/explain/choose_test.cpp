#include "planner/explain/choose.h"

#include <gtest/gtest.h>

#include "planner/cost/memory.h"
#include "planner/explain/disturbance.h"
#include "planner/testing/testing_search.h"

namespace tombolo::planner {
namespace {

using testing::free_job;
using testing::make_cluster;
using testing::SearchSetting;
using testing::simple_plan;
using topology::NicKind;

/// Two clusters of two hosts, with slow Ethernet between them.
topology::ClusterFile pairs_apart(double ethernet = 1e8) {
  return make_cluster({{"a", 2, 1, NicKind::kInfiniBand, 1e10}, {"h", 2, 1, NicKind::kRoce, 1e10}}, ethernet);
}

/// A pipeline over these hosts, with the seconds that are predicted for it.
Plan pipeline_over(const SearchSetting& setting, const std::vector<std::string>& hosts) {
  Plan plan = simple_plan(setting.job.model, hosts, 4, 1, 8);
  plan.job.framework = setting.job.framework;
  plan.prediction.step_seconds = simulate(plan, setting.view, {.spans = false}).step_seconds;
  return plan;
}

std::string path_of(const Plan& plan) {
  std::string path;
  for (int stage = 0; stage < plan.pipeline_size(); ++stage)
    path += plan.ranks[static_cast<std::size_t>(plan.rank_at(stage, 0))].host[0];
  return path;
}

std::vector<Plan> once_and_thrice(const SearchSetting& setting) {
  Plan once = pipeline_over(setting, {"a0", "a1", "h0", "h1"}),
       thrice = pipeline_over(setting, {"a0", "h0", "a1", "h1"});
  // As if the longer way were a little faster.
  thrice.prediction.step_seconds = 0.99 * once.prediction.step_seconds;
  return {thrice, once};
}

TEST(Choose, ThePlanThatCrossesSlowLinksLeast) {
  const SearchSetting setting(pairs_apart(1e10), free_job(8, 8));
  const Plan plan = chosen(setting.context, once_and_thrice(setting), 0.03);
  EXPECT_EQ(path_of(plan), "aahh");
  ASSERT_TRUE(plan.choice);
  ASSERT_EQ(plan.choice->next.size(), 1U);
  EXPECT_NE(plan.choice->next[0].why_not.find("keeps links between clusters busy for"), std::string::npos)
      << plan.choice->next[0].why_not;
  EXPECT_EQ(plan.choice->cases, 8)
      << "one kind of device, and links inside either and between, each both ways";
}

TEST(Choose, TheFastestWhereOthersAreSlowerThanTheToleranceAllows) {
  const SearchSetting setting(pairs_apart(1e10), free_job(8, 8));
  const Plan plan = chosen(setting.context, once_and_thrice(setting), 0.005);
  EXPECT_EQ(path_of(plan), "ahah");
  EXPECT_EQ(plan.choice->held, plan.choice->cases) << "it has no rival";
  ASSERT_EQ(plan.choice->next.size(), 1U);
  EXPECT_EQ(plan.choice->next[0].why_not, "1.0 % slower");
}

TEST(Choose, NotThePlanThatFillsItsDevices) {
  auto cluster = make_cluster({{"a", 4, 1}}, 1e10);
  const Job job = free_job(8, 8);
  Plan full, roomy;
  {
    const SearchSetting setting(cluster, job);
    full = pipeline_over(setting, {"a0", "a1", "a2", "a3"});
    roomy = full;
    roomy.job.recompute = Recompute::kFull;  // one complication more, which counts less than memory
    full.prediction.step_seconds = 0.99 * roomy.prediction.step_seconds;
  }
  for (auto& host : cluster.hosts)
    host.devices[0].memory_bytes = 1.02 * static_cast<double>(rank_memory(full, 0, 0).total);
  const SearchSetting setting(cluster, job);
  ASSERT_LT(rank_memory(roomy, 0, 0).total, 0.8 * setting.cluster.hosts[0].devices[0].memory_bytes);
  // A tolerance within which computing again is.
  const Plan plan = chosen(setting.context, {full, roomy}, 0.6);
  EXPECT_EQ(plan.job.recompute, Recompute::kFull);
  EXPECT_NE(plan.choice->next[0].why_not.find("of a device's memory, not"), std::string::npos)
      << plan.choice->next[0].why_not;
}

TEST(Choose, SaysWhenARivalIsBetter) {
  const SearchSetting setting(pairs_apart(1e6), free_job(8, 8));
  std::vector<Plan> plans = once_and_thrice(setting);
  std::swap(plans[0], plans[1]);
  plans[0].prediction.step_seconds = plans[1].prediction.step_seconds;
  const Plan plan = chosen(setting.context, plans, 0.03);
  EXPECT_EQ(path_of(plan), "aahh");
  EXPECT_GT(plan.choice->cases, 0);
  EXPECT_EQ(plan.choice->held, plan.choice->cases) << "it crosses less in every case";
  EXPECT_EQ(plan.choice->worst, 0);
}

TEST(Disturbance, ChangesOneThingAtATime) {
  const SearchSetting setting(pairs_apart(), free_job(8, 8));
  const auto cases = disturbances(setting.view, {0, 1, 2, 3}, 0.2);
  ASSERT_EQ(cases.size(), 8U);
  EXPECT_EQ(cases[0].text, "test 20 % slower");
  EXPECT_DOUBLE_EQ(cases[0].cluster.hosts[3].devices[0].flops_per_second,
                   0.8 * setting.cluster.hosts[3].devices[0].flops_per_second);
  const auto rate = [&](const topology::ClusterFile& cluster, const char* from, const char* to) {
    const ClusterView view(cluster, "per-peer", {});
    return view.path(view.host_index(from), view.host_index(to)).bytes_per_second;
  };
  for (const Disturbance& one : cases) {
    const bool slower = one.text.ends_with("slower");
    const double factor = slower ? 0.8 : 1.2;
    EXPECT_DOUBLE_EQ(rate(one.cluster, "a0", "h1"),
                     one.text.starts_with("links between a and h") ? factor * 1e8 : 1e8)
        << one.text;
    EXPECT_DOUBLE_EQ(rate(one.cluster, "h1", "h0"),
                     one.text.starts_with("links inside h") ? factor * 1e10 : 1e10)
        << one.text;
  }
}

TEST(Disturbance, GivesTheDefaultsOfAFabricToTheClustersThatAreMeant) {
  auto cluster = pairs_apart();
  cluster.links.clear();
  cluster.fabrics.push_back({"", "", "", 1e8, 1e-5});
  for (auto& host : cluster.hosts)
    std::erase_if(host.nics, [](const auto& nic) { return nic.name != "eth"; });
  const SearchSetting setting(cluster, free_job(8, 8));
  for (const Disturbance& one : disturbances(setting.view, {0, 1, 2, 3}, 0.2)) {
    const ClusterView view(one.cluster, "per-peer", {});
    const double between = view.path(0, 2).bytes_per_second, inside = view.path(0, 1).bytes_per_second;
    EXPECT_EQ(between != 1e8, one.text.find("between") != std::string::npos) << one.text;
    EXPECT_EQ(inside != 1e8, one.text.find("inside a") != std::string::npos) << one.text;
  }
}

TEST(Contenders, KeepTheFastestOfEachKind) {
  const SearchSetting setting(pairs_apart(), free_job(8, 8));
  Contenders contenders(0.03);
  Plan plan = pipeline_over(setting, {"a0", "a1", "h0", "h1"});
  plan.prediction.step_seconds = 2;
  contenders.offer(plan, setting.view);
  plan.prediction.step_seconds = 1;
  contenders.offer(plan, setting.view);
  plan.pipelines[0].stages[0].layers = 3;  // another split is no other kind
  plan.prediction.step_seconds = 1.5;
  contenders.offer(plan, setting.view);
  Plan other = pipeline_over(setting, {"a0", "h0", "a1", "h1"});
  other.prediction.step_seconds = 0.5;
  contenders.offer(other, setting.view);
  const std::vector<Plan> ranked = contenders.ranked();
  ASSERT_EQ(ranked.size(), 2U);
  EXPECT_EQ(ranked[0].prediction.step_seconds, 0.5);
  EXPECT_EQ(ranked[1].prediction.step_seconds, 1);
}

}  // namespace
}  // namespace tombolo::planner
