#include "planner/strategies/exhaustive.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "base/randomized_test.h"
#include "planner/testing/testing_strategies.h"

namespace tombolo::planner {
namespace {

using namespace testing;

/// Two ranks, with a job of the bundled trainer: 3 layers and 2 rows.
double layouts_of_two_ranks(const topology::ClusterFile& cluster) {
  Job job;
  job.model = small_model(3);
  job.global_batch = 2;
  const SearchSetting setting(cluster, job);
  return layouts_in_all(setting.context, setting.job);
}

TEST(Exhaustive, CountsEveryLayoutOnce) {
  // On two hosts: 2 orders of a pipeline with 2 splits and 2 micro-batches, 2 orders of replicas with at
  // most 2.
  EXPECT_EQ(layouts_of_two_ranks(make_cluster({{"a", 2, 1}}, 1e8)), 2 * 2 * 2 + 2 * 2);
  // Devices of one host are exchangeable.
  EXPECT_EQ(layouts_of_two_ranks(make_cluster({{"a", 1, 2}}, 1e8)), 2 * 2 + 2);
}

TEST(Exhaustive, SevenRanksAreTooMany) {
  const SearchSetting setting(gpu_cluster({{"a", 7, 1}}, 1e8), free_job(8, 8));
  EXPECT_EQ(layouts_in_all(setting.context, setting.job), Scorer::kNever);
  EXPECT_FALSE(exhaustive_plan(setting.context, setting.job, Scorer::kNever));
}

TEST(Exhaustive, FindsNothingBelowItsOwnBest) {
  const SearchSetting setting(gpu_cluster({{"a", 2, 1, topology::NicKind::kTcp, 0, 2e9}, {"b", 1, 1}}, 1e6),
                              free_job(3, 3));
  const auto best = exhaustive_plan(setting.context, setting.job, Scorer::kNever);
  ASSERT_TRUE(best);
  const double seconds = best->prediction.step_seconds;
  EXPECT_FALSE(exhaustive_plan(setting.context, setting.job, seconds));
  EXPECT_TRUE(exhaustive_plan(setting.context, setting.job, seconds * 1.0001));
}

TEST(Exhaustive, IsWhatAutoFindsForFewRanks) {
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

TEST(Exhaustive, IsWhatAutoFindsForFewRanksThatMayBeLeftOut) {
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

TEST(Exhaustive, IsWhatAutoFindsForReplicasThatShareWhatTheyHold) {
  std::mt19937_64 random(test_seed());
  for (int trial = 0; trial < test_rounds(9); ++trial) {
    const topology::ClusterFile cluster = random_cluster(random, 2 + trial % 3);
    Job job = random_job(random, 2 + trial % 3, 2 + static_cast<int>(random() % 3));
    job.framework = std::array{Framework::kAny, Framework::kDeepSpeed, Framework::kTorchTitan}[random() % 3];
    job.tensor = 0;
    job.model.bytes_per_value = 2;
    job.sends = traits(job.framework).sends;
    PlanOptions options;
    options.savings = savings_of(job);
    std::erase_if(options.savings, [](const Saving& one) { return one.recompute != Recompute::kNone; });
    const double best = Everything(cluster, job, false, options.savings).best();
    ASSERT_LT(best, Scorer::kNever) << "trial " << trial;
    EXPECT_NEAR(make_plan(cluster, job, options).prediction.step_seconds, best, 1e-8 * best)
        << "trial " << trial;
  }
}

TEST(Exhaustive, IsWhatAutoFindsForReplicasThatDivideRows) {
  std::mt19937_64 random(test_seed());
  int found = 0;
  for (int trial = 0; trial < test_rounds(9); ++trial) {
    const topology::ClusterFile cluster = random_cluster(random, 2 + trial % 3);
    Job job = random_job(random, 2 + trial % 3, 1 + static_cast<int>(random() % 3));
    job.framework = std::array{Framework::kAny, Framework::kMegatron, Framework::kTorchTitan}[random() % 3];
    job.tensor = 0;
    job.context_parallel = 2;
    if (job.framework != Framework::kTorchTitan && random() % 2 == 0)
      job.context_exchange = ContextExchange::kAllToAll;
    const double best = Everything(cluster, job).best(), seen = seconds_by(cluster, job, "auto");
    if (best == Scorer::kNever) {
      EXPECT_EQ(seen, best) << "trial " << trial;
      continue;
    }
    EXPECT_NEAR(seen, best, 1e-8 * best) << "trial " << trial;
    ++found;
  }
  EXPECT_GT(found, 0);
}

// The strategies often find the best without it, so that a comparison alone would not miss the search.
TEST(Exhaustive, OfReplicasThatDivideRowsIsWhatAutoAsks) {
  const topology::ClusterFile cluster = testing::gpu_cluster({{"a", 1, 2}}, 1e9);
  Job job;
  job.model = testing::small_model(4);
  job.global_batch = 4;
  job.tensor = 0;
  job.framework = Framework::kMegatron;
  job.context_parallel = 2;
  PlanOptions options;
  options.strategy = "auto";
  const Plan plan = make_plan(cluster, job, options);
  EXPECT_TRUE(std::ranges::any_of(plan.notes, [](const std::string& note) {
    return note.starts_with("the best of all layouts");
  })) << plan.notes.front();
}

TEST(Exhaustive, IsWhatAutoFindsForReplicasThatDivideExperts) {
  std::mt19937_64 random(test_seed());
  for (int trial = 0; trial < test_rounds(18); ++trial) {
    const topology::ClusterFile cluster = random_cluster(random, 2 + trial % 3);
    Job job = random_job(random, 2 + trial % 2, 2 + static_cast<int>(random() % 3));
    job.framework = std::array{Framework::kMegatron, Framework::kNeMo, Framework::kTorchTitan}[random() % 3];
    job.model = mixture_model(job.model.layers);
    job.model.dense_first = static_cast<int>(random() % 2);
    job.model.experts_per_token = 1 + static_cast<int>(random() % 2);
    job.model.expert_feed_forward *= 1 + static_cast<int>(random() % 4);
    job.tensor = static_cast<int>(random() % 2);
    job.sequence_parallel = job.tensor == 0;
    job.expert_parallel = trial % 3 == 1 ? 2 : 0;  // or no plan might divide them
    PlanOptions options;
    options.savings = savings_of(job);
    std::erase_if(options.savings, [](const Saving& one) { return one.recompute != Recompute::kNone; });
    const double best = Everything(cluster, job, false, options.savings).best();
    if (best == Scorer::kNever) {
      EXPECT_THROW(make_plan(cluster, job, options), Error) << "trial " << trial;
      continue;
    }
    const Plan plan = make_plan(cluster, job, options);
    EXPECT_NEAR(plan.prediction.step_seconds, best, 1e-8 * best) << "trial " << trial;
    EXPECT_NEAR(simulate(written_and_loaded(plan), cluster).step_seconds, best, 1e-8 * best);
  }
}

}  // namespace
}  // namespace tombolo::planner
