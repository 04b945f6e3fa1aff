#include "planner/search/dedication.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "base/randomized_test.h"

namespace tombolo::planner {
namespace {

DedicationCosts random_costs(int workers, std::mt19937_64& random) {
  DedicationCosts costs;
  costs.workers = workers;
  std::uniform_real_distribution<double> seconds(0.1, 1);
  for (int i = 0; i < workers * workers; ++i) {
    costs.activations.push_back(seconds(random));
    costs.gradients.push_back(seconds(random));
  }
  return costs;
}

WorkerOrder identity(int workers) {
  WorkerOrder order(static_cast<std::size_t>(workers));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

TEST(Dedication, CountsTheSlowestPipelineAndTheSlowestEdgeOfARing) {
  DedicationCosts costs;
  costs.workers = 4;
  costs.activations.assign(16, 1);
  costs.gradients.assign(16, 10);
  costs.activations[0 * 4 + 2] = 3;  // worker 0 to worker 2
  costs.gradients[3 * 4 + 2] = 20;   // worker 3 to worker 2
  EXPECT_DOUBLE_EQ(dedication_seconds(costs, 2, 2, {0, 1, 2, 3}), 4 + 20);
  EXPECT_DOUBLE_EQ(dedication_seconds(costs, 2, 2, {2, 1, 0, 3}), 4 + 10);
  EXPECT_DOUBLE_EQ(dedication_seconds(costs, 4, 1, {1, 0, 3, 2}), 6) << "a single replica has no ring";
}

TEST(Dedication, FindsTheBestOrderOfFewWorkers) {
  std::mt19937_64 random(test_seed(5));
  for (int trial = 0; trial < test_rounds(20); ++trial) {
    const DedicationCosts costs = random_costs(6, random);
    for (const int stages : {2, 3, 6}) {
      WorkerOrder order = identity(6);
      double best = dedication_seconds(costs, stages, 6 / stages, order);
      while (std::next_permutation(order.begin(), order.end()))
        best = std::min(best, dedication_seconds(costs, stages, 6 / stages, order));
      const WorkerOrder found = dedicate(costs, stages, 6 / stages, identity(6), 20'000);
      EXPECT_NEAR(dedication_seconds(costs, stages, 6 / stages, found), best, 1e-9) << trial << ' ' << stages;
    }
  }
}

TEST(Dedication, IsAPermutationNeverWorseThanItsStartAndAlwaysTheSame) {
  std::mt19937_64 random(test_seed(7));
  for (const int workers : {1, 2, 12, 16}) {
    const DedicationCosts costs = random_costs(workers, random);
    for (int stages = 1; stages <= workers; ++stages) {
      if (workers % stages != 0) continue;
      WorkerOrder start = identity(workers);
      std::shuffle(start.begin(), start.end(), random);
      const WorkerOrder found = dedicate(costs, stages, workers / stages, start, 500);
      EXPECT_TRUE(std::is_permutation(found.begin(), found.end(), start.begin()));
      EXPECT_LE(dedication_seconds(costs, stages, workers / stages, found),
                dedication_seconds(costs, stages, workers / stages, start));
      EXPECT_EQ(found, dedicate(costs, stages, workers / stages, start, 500));
    }
  }
}

}  // namespace
}  // namespace tombolo::planner
