#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "base/randomized_test.h"
#include "planner/strategies/auto.h"
#include "planner/strategies/strategy.h"
#include "planner/testing/testing_search.h"

namespace tombolo::planner {
namespace {

using namespace testing;

double seconds_by(const topology::ClusterFile& cluster, const Job& job, std::string_view strategy) {
  PlanOptions options;
  options.strategy = strategy;
  try {
    const Plan plan = make_plan(cluster, job, options);
    // What is promised is what the plan gives, read back and simulated anew.
    const Plan again = Plan::parse(JsonDocument::parse(plan.to_json().dump(), "plan"));
    EXPECT_NEAR(simulate(again, cluster).step_seconds, plan.prediction.step_seconds,
                1e-9 * plan.prediction.step_seconds);
    return plan.prediction.step_seconds;
  } catch (const Error&) {
    return Scorer::kNever;
  }
}

TEST(Strategies, AutoEqualsExhaustiveSearchOfFewRanks) {
  std::mt19937_64 random(test_seed());
  for (int trial = 0; trial < test_rounds(24); ++trial) {
    const topology::ClusterFile cluster = random_cluster(random, 1 + trial % 4);
    const Job job = random_job(random, 2 + trial % 3, 1 + static_cast<int>(random() % 4));
    const double best = Everything(cluster, job).best();
    const double found = seconds_by(cluster, job, "auto");
    if (best == Scorer::kNever)
      EXPECT_EQ(found, best) << "trial " << trial;
    else
      EXPECT_NEAR(found, best, 1e-8 * best) << "trial " << trial;
  }
}

TEST(Strategies, AutoIsNeverWorseThanAnother) {
  std::mt19937_64 random(test_seed());
  for (int trial = 0; trial < test_rounds(4); ++trial) {
    // A search of twelve takes a sanitizer most of a minute.
    const topology::ClusterFile cluster =
        random_cluster(random, 7 + static_cast<int>(random() % (kSanitized ? 2 : 6)));
    const Job job = random_job(random, 8, 12);
    const double best = seconds_by(cluster, job, "auto");
    for (const std::string_view strategy : strategy_names({&StrategyCapabilities::asks_others}, false))
      EXPECT_LE(best, seconds_by(cluster, job, strategy) * (1 + 1e-9)) << strategy << " trial " << trial;
  }
}

TEST(Strategies, AutoIsNeverWorseThanAnotherWhereItPlansParts) {
  std::mt19937_64 random(test_seed());
  std::uniform_real_distribution<> factor(0.1, 10);
  for (int trial = 0; trial < test_rounds(4); ++trial) {
    const auto cluster =
        make_cluster({{"a", 2, 2, topology::NicKind::kInfiniBand, 1e8 * factor(random), 1e9 * factor(random)},
                      {"b", 2, 2, topology::NicKind::kRoce, 1e8 * factor(random), 1e9}},
                     1e6 * factor(random));
    const Job job = random_job(random, 8, 16);
    PlanOptions options;
    options.uneven_replicas = job.framework == Framework::kMegatron;
    const ClusterView view(cluster, "per-peer", {});
    const std::vector<LauncherSlot> slots = launcher_slots(view, {});
    const Plan plan = auto_plan({view, view, slots, options}, job, 4);
    EXPECT_NE(plan.notes.front().find("a part, repeated"), std::string::npos) << plan.notes.front();
    EXPECT_NEAR(simulate(plan, cluster).step_seconds, plan.prediction.step_seconds,
                1e-9 * plan.prediction.step_seconds);
    for (const std::string_view strategy : strategy_names({&StrategyCapabilities::asks_others}, false))
      EXPECT_LE(plan.prediction.step_seconds, seconds_by(cluster, job, strategy) * (1 + 1e-9))
          << strategy << " trial " << trial;
  }
}

TEST(Strategies, PipetteKeepsStagesTogetherOnFastLinks) {
  // Pairs of hosts by fast links, in an order that the launcher's does not follow.
  auto cluster = make_cluster({{"a", 4}}, 1e5);
  for (auto& link : cluster.links) {
    const int from = link.from_host.back() - '0', to = link.to_host.back() - '0';
    if ((from + to) % 4 == 3) link.bytes_per_second = 1e8;  // a0 with a3, a1 with a2
  }
  Job job;
  job.model = small_model(4);
  job.global_batch = 16;
  job.pipeline = 2;
  job.data = 2;
  const double pipette = seconds_by(cluster, job, "pipette");
  EXPECT_LT(pipette, 0.9 * seconds_by(cluster, job, "megatron"));
}

TEST(Strategies, FlashFlexUsesDevicesOfDifferentSpeed) {
  auto cluster = make_cluster({{"fast", 1, 4, topology::NicKind::kTcp, 0, 4e9, 0},
                               {"slow", 1, 2, topology::NicKind::kTcp, 0, 1e9, 0}},
                              1e9);
  Job job;
  job.model = small_model(12);
  job.global_batch = 24;
  job.framework = Framework::kMegatron;
  job.tensor = 0;
  PlanOptions options;
  options.strategy = "flashflex";
  const Plan plan = make_plan(cluster, job, options);
  EXPECT_LT(plan.prediction.step_seconds, 0.7 * seconds_by(cluster, job, "megatron"));
  EXPECT_EQ(plan.ranks.size(), 6u) << "nobody is left out";
}

/// Four fast devices, and two that take longer for one layer than these for all.
topology::ClusterFile with_a_slow_host() {
  return make_cluster({{"fast", 1, 4, topology::NicKind::kTcp, 0, 4e9, 0},
                       {"slow", 1, 2, topology::NicKind::kTcp, 0, 5e7, 0}},
                      1e9);
}

TEST(Strategies, LeaveSlowDevicesOutWhereTheyMay) {
  const auto cluster = with_a_slow_host();
  Job job;
  job.model = small_model(8);
  job.global_batch = 12;
  job.framework = Framework::kMegatron;
  job.tensor = 0;
  for (const std::string_view strategy : strategy_names({&StrategyCapabilities::leaves_devices_out})) {
    PlanOptions options;
    options.strategy = strategy;
    const Plan all = make_plan(cluster, job, options);
    EXPECT_EQ(all.ranks.size(), 6u);
    EXPECT_TRUE(all.left_out.empty());
    options.may_leave_out = true;
    const Plan some = make_plan(cluster, job, options);
    EXPECT_LT(some.prediction.step_seconds, 0.8 * all.prediction.step_seconds);
    ASSERT_EQ(some.ranks.size(), 4u);
    for (const RankPlace& place : some.ranks) EXPECT_EQ(place.host, "fast0");
    EXPECT_EQ(some.left_out, (std::vector<IdleDevice>{{"slow0", 0}, {"slow0", 1}}));
    EXPECT_NE(some.notes.back().find("left out: 2 test of slow0: one layer takes"), std::string::npos)
        << some.notes.back();
    const Plan again = Plan::parse(JsonDocument::parse(some.to_json().dump(), "plan"));
    EXPECT_EQ(again.left_out, some.left_out);
    EXPECT_NEAR(simulate(again, cluster).step_seconds, some.prediction.step_seconds,
                1e-9 * some.prediction.step_seconds);
  }
  PlanOptions options;
  options.may_leave_out = true;
  EXPECT_THROW(make_plan(cluster, job, options), Error) << "holmes gives every rank a place";
}

TEST(Strategies, AutoEqualsExhaustiveSearchOfFewRanksThatMayBeLeftOut) {
  std::mt19937_64 random(test_seed());
  for (int trial = 0; trial < 9; ++trial) {
    const topology::ClusterFile cluster = random_cluster(random, 1 + trial % 4);
    const Job job = random_job(random, 2 + trial % 2, 1 + static_cast<int>(random() % 3));
    const double best = Everything(cluster, job, true).best();
    PlanOptions options;
    options.strategy = "auto";
    options.may_leave_out = true;
    EXPECT_NEAR(make_plan(cluster, job, options).prediction.step_seconds, best, 1e-8 * best)
        << "trial " << trial;
  }
}

TEST(Strategies, AreNamed) {
  for (const Strategy* strategy : strategies()) EXPECT_EQ(&strategy_named(strategy->name), strategy);
  EXPECT_EQ(PlanOptions().strategy, strategies().front()->name);
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

}  // namespace
}  // namespace tombolo::planner
