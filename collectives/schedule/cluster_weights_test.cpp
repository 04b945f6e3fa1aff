// What clusters combine for each other, by their links.
#include "collectives/schedule/cluster_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "base/randomized_test.h"

namespace tombolo::collectives {
namespace {

using Rates = std::vector<std::vector<double>>;

/// What pairs attain between clusters with these uplinks.
Rates star(const std::vector<double>& uplinks) {
  Rates rates(uplinks.size(), std::vector<double>(uplinks.size()));
  for (std::size_t i = 0; i < uplinks.size(); ++i)
    for (std::size_t j = 0; j < uplinks.size(); ++j)
      if (i != j) rates[i][j] = std::min(uplinks[i], uplinks[j]);
  return rates;
}

/// The time of the slowest uplink, where 1 is that of all bytes at a rate of 1.
double time_of(const std::vector<double>& uplinks, std::vector<std::uint32_t> weights) {
  if (weights.empty()) weights.assign(uplinks.size(), 1);
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0),
               k = static_cast<double>(weights.size());
  double longest = 0;
  for (std::size_t i = 0; i < weights.size(); ++i)
    longest = std::max(longest, (1 + (k - 2) * weights[i] / all) / uplinks[i]);
  return longest;
}

/// The bound of docs/collectives.md.
double bound_of(const std::vector<double>& uplinks) {
  const double sum = std::accumulate(uplinks.begin(), uplinks.end(), 0.0);
  return std::max(1 / std::ranges::min(uplinks), 2 * static_cast<double>(uplinks.size() - 1) / sum);
}

TEST(ClusterWeights, AreEqualWhereLinksAreOrNobodyKnows) {
  EXPECT_TRUE(cluster_weights({}).empty());
  EXPECT_TRUE(cluster_weights(star({1, 5})).empty()) << "two swap";
  EXPECT_TRUE(cluster_weights(star({1, 1, 1, 1})).empty());
  EXPECT_TRUE(cluster_weights(star({1, 1.02, 0.98})).empty()) << "not worth it";
  EXPECT_TRUE(cluster_weights(Rates(3, std::vector<double>(3))).empty());
}

TEST(ClusterWeights, LeaveTheSlowestUplinkWhatItMustCarry) {
  const std::vector<double> uplinks{1, 2, 4};
  const auto weights = cluster_weights(star(uplinks));
  ASSERT_EQ(weights.size(), 3U);
  EXPECT_EQ(weights[0], 0U);
  EXPECT_DOUBLE_EQ(time_of(uplinks, weights), 1);
}

TEST(ClusterWeights, LeaveOutASlowLinkBetweenTwo) {
  Rates rates = star({1, 1, 1});
  rates[0][2] = rates[2][0] = 0.01;
  const auto weights = cluster_weights(rates);
  ASSERT_EQ(weights.size(), 3U);
  EXPECT_LE(weights[0] + weights[2], 4U) << "the middle one combines";
}

TEST(ClusterWeights, CountTheSlowerDirection) {
  Rates rates = star({2, 2, 2});
  rates[0][1] = rates[0][2] = 1;
  EXPECT_EQ(cluster_weights(rates), cluster_weights(star({1, 2, 2})));
}

TEST(ClusterWeights, AttainTheBoundOfAnyUplinks) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 200; ++round) {
    std::vector<double> uplinks(3 + random() % 8);
    for (double& one : uplinks) one = 1 + static_cast<double>(random() % 1000) / 100;
    // A pair tells nothing of what the fastest uplink attains beyond the second fastest.
    const auto fastest = std::ranges::max_element(uplinks);
    const double before = *fastest;
    *fastest = 0;
    *fastest = std::min(before, std::ranges::max(uplinks));
    const double time = time_of(uplinks, cluster_weights(star(uplinks)));
    EXPECT_LE(time, 1.06 * bound_of(uplinks));
    EXPECT_GE(time, bound_of(uplinks) * (1 - 1e-9)) << "the bound is none";
  }
}

}  // namespace
}  // namespace tombolo::collectives
