// Arrangements of ranks with problems, on which tests try algorithms.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/randomized_test.h"
#include "collectives/schedule/algorithm.h"
#include "collectives/testing/schedule_simulation.h"

namespace tombolo::collectives::test {

inline constexpr std::string_view kClusters[] = {
    "A",        "AA",       "AAA",      "AAAA",    "AAAAA",     "AB",       "AABB",   "ABAB",
    "AAB",      "ABBBB",    "AAABB",    "ABC",     "AABBCC",    "ABCABC",   "AABBBC", "ABCD",
    "ABABABAB", "AAAABBBB", "AAABBBBB", "AAAAAAA", "ABCABCABC", "AAAAAAAAA"};
inline constexpr std::size_t kCounts[] = {0, 1, 2, 5, 17, 64, 257};

/// One arrangement of ranks, with a problem and sizes.
struct Case {
  std::vector<RankLocation> locations;
  std::vector<RankMap> maps;
  Problem problem;
  Tuning tuning;
  bool in_place = false;
};

/// Ends with the first failure.
inline void for_each_case(const std::function<void(const Case&, std::uint32_t)>& action) {
  std::mt19937 random(test_seed());
  for (const auto clusters : kClusters) {
    for (const std::size_t count : kCounts) {
      for (const bool in_place : {false, true}) {
        Case one;
        const std::size_t ranks_per_host = 1 + random() % 3;
        one.locations = locations_of(clusters, ranks_per_host);
        const bool uniform_links = random() % 4 == 0;
        std::vector<std::uint32_t> weights;  // some clusters combine nothing for the others
        if (random() % 2 == 0) {
          for (std::size_t cluster = 0; cluster < RankMap::make(0, one.locations).clusters.size(); ++cluster)
            weights.push_back(random() % 3 == 0 ? 0 : 1 + static_cast<std::uint32_t>(random() % 200));
          weights[random() % weights.size()] += 1;
        }
        for (int rank = 0; rank < static_cast<int>(clusters.size()); ++rank) {
          one.maps.push_back(RankMap::make(rank, one.locations));
          one.maps.back().uniform_links = uniform_links;
          one.maps.back().cluster_weights = weights;
        }
        one.problem = {count, kElement, random() % 2 == 0, static_cast<int>(random() % clusters.size())};
        one.tuning.segment_bytes = 4 + random() % 200;
        one.tuning.small_bytes = random() % 2 == 0 ? 0 : 4096;
        one.tuning.crossing_bytes = random() % 2 == 0 ? 0 : random() % 4096;
        one.in_place = in_place;
        SCOPED_TRACE(std::string(clusters) + " count " + std::to_string(count) + " segment " +
                     std::to_string(one.tuning.segment_bytes) + (in_place ? " in place" : "") +
                     " ranks per host " + std::to_string(ranks_per_host) + " root " +
                     std::to_string(one.problem.root));
        action(one, static_cast<std::uint32_t>(random()));
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

}  // namespace tombolo::collectives::test
