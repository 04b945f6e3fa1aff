#include "planner/strategies/grid_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/error.h"
#include "base/randomized_test.h"
#include "planner/search/layout.h"
#include "planner/testing/testing_search.h"

namespace tombolo::planner {
namespace {

using namespace testing;

std::vector<int> layers_by_division(int layers, int stages, const Placement&, const PlanOptions&) {
  return std::vector<int>(at(stages), layers / stages);
}

constexpr GridRule kDivision{
    .place = place_in_launcher_order, .split = layers_by_division, .equal_stages = true};

TEST(GridPlan, IsTheFastestOfAllCandidatesAlthoughNotAllAreSimulated) {
  std::mt19937_64 random(test_seed());
  for (int trial = 0; trial < test_rounds(20); ++trial) {
    const SearchSetting setting(random_cluster(random, 4), free_job(8, 8));
    double best = Scorer::kNever;
    for (const Candidate& candidate : enumerate(setting.context, setting.job, kDivision).all)
      best = std::min(best, simulate(candidate.plan, setting.view, {}).step_seconds);
    const auto found = grid_plan(setting.context, setting.job, kDivision);
    ASSERT_TRUE(found);
    EXPECT_NEAR(found->plan.prediction.step_seconds, best, 1e-8 * best);
    const SearchContext limited{setting.view, setting.view, setting.slots, setting.options,
                                best * (1 - 1e-6)};
    EXPECT_FALSE(grid_plan(limited, setting.job, kDivision)) << "none takes less than the best";
  }
}

TEST(GridPlan, SaysWhyNothingDividesOrTalks) {
  const auto message_of = [](const topology::ClusterFile& cluster, int layers) -> std::string {
    Job job;
    job.model = small_model(layers);
    job.global_batch = 1;
    const SearchSetting setting(cluster, job);
    try {
      grid_plan(setting.context, job, kDivision);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  auto cluster = make_cluster({{"a", 2, 1}}, 1e8);
  EXPECT_NE(message_of(cluster, 3).find("no layout of 2 ranks divides: "), std::string::npos);
  cluster.links.clear();
  EXPECT_NE(message_of(cluster, 4).find("has no link from a0/eth to a1/eth"), std::string::npos);
}

}  // namespace
}  // namespace tombolo::planner
