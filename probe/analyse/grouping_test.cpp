#include "probe/analyse/grouping.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <string>

#include "base/format.h"
#include "base/randomized_test.h"

namespace tombolo::probe {
namespace {

using Distances = std::vector<std::vector<double>>;

/// By each point's place: 1 inside "a", 2 inside "b" and so on as given, `across` between them.
Distances planted(const std::string& places, const std::map<char, double>& inside, double across) {
  Distances distance(places.size(), std::vector<double>(places.size(), 0.0));
  for (std::size_t i = 0; i < places.size(); ++i)
    for (std::size_t j = 0; j < places.size(); ++j)
      if (i != j) distance[i][j] = places[i] == places[j] ? inside.at(places[i]) : across;
  return distance;
}

TEST(NearGroups, AreNoneAmongNobodyAndOneAmongEquals) {
  EXPECT_TRUE(near_groups({}).empty());
  EXPECT_EQ(near_groups({{0}}), (std::vector<NearGroup>{{{0}, true}}));
  EXPECT_EQ(near_groups(planted("aaaa", {{'a', 1}}, 1)), (std::vector<NearGroup>{{{0, 1, 2, 3}, true}}));
}

TEST(NearGroups, AreTheClustersThatWerePlanted) {
  EXPECT_EQ(near_groups(planted("abab", {{'a', 1}, {'b', 1}}, 3)),
            (std::vector<NearGroup>{{{0, 2}, true}, {{1, 3}, true}}));
  // Inside b it is slow, but still markedly faster than across.
  EXPECT_EQ(near_groups(planted("aabb", {{'a', 1}, {'b', 30}}, 100)),
            (std::vector<NearGroup>{{{0, 1}, true}, {{2, 3}, true}}));
  EXPECT_EQ(near_groups(planted("aab", {{'a', 1}, {'b', 1}}, 5)),
            (std::vector<NearGroup>{{{0, 1}, true}, {{2}, false}}));
}

TEST(NearGroups, AreFoundInsideEachOther) {
  // Two clusters on one continent, a third far away.
  Distances distance = planted("aabbcc", {{'a', 1}, {'b', 1}, {'c', 1}}, 10);
  for (const std::size_t near : {0, 1, 2, 3})
    for (const std::size_t far : {4, 5}) distance[near][far] = distance[far][near] = 200;
  EXPECT_EQ(near_groups(distance), (std::vector<NearGroup>{{{0, 1}, true}, {{2, 3}, true}, {{4, 5}, true}}));
}

TEST(NearGroups, LeaveThoseNearNobodyTogether) {
  EXPECT_EQ(near_groups(planted("aabb", {{'a', 1}, {'b', 10}}, 10)),
            (std::vector<NearGroup>{{{0, 1}, true}, {{2, 3}, false}}));
  // Two single sites that are farther from each other than from the island between them.
  Distances distance = planted("aabc", {{'a', 1}, {'b', 1}, {'c', 1}}, 10);
  distance[2][3] = distance[3][2] = 40;
  EXPECT_EQ(near_groups(distance), (std::vector<NearGroup>{{{0, 1}, true}, {{2}, false}, {{3}, false}}));
}

TEST(NearGroups, AreFoundInNoise) {
  std::mt19937 random(test_seed());
  const auto between = [&](double low, double high) {
    return std::uniform_real_distribution(low, high)(random);
  };
  for (int round = 0; round < 300; ++round) {
    std::string places;
    const int clusters = 1 + static_cast<int>(between(0, 4)), points = 2 + static_cast<int>(between(0, 14));
    std::map<char, double> inside;
    for (int c = 0; c < clusters; ++c) {
      inside[static_cast<char>('a' + c)] = between(1, 20);
      places += std::string(2, static_cast<char>('a' + c));
    }
    for (int i = 0; i < points; ++i)
      places += static_cast<char>('a' + static_cast<int>(between(0, clusters)));
    std::shuffle(places.begin(), places.end(), random);
    // The slowest inside takes 20, so that across takes at least four times as long; each direction of each
    // link is off by up to a fifth.
    Distances distance = planted(places, inside, between(80, 1000));
    for (auto& row : distance)
      for (double& one : row) one *= between(0.8, 1.2);
    const auto groups = near_groups(distance);
    ASSERT_EQ(groups.size(), static_cast<std::size_t>(clusters)) << places;
    for (const NearGroup& group : groups) {
      EXPECT_TRUE(group.close);
      EXPECT_EQ(group.members.size(),
                static_cast<std::size_t>(std::ranges::count(places, places[group.members.front()])));
      for (const std::size_t member : group.members)
        ASSERT_EQ(places[member], places[group.members.front()]) << places;
    }
  }
}

}  // namespace
}  // namespace tombolo::probe
