#include "tests/extending/star_all_reduce.h"

#include <gtest/gtest.h>

#include "base/randomized_test.h"
#include "collectives/testing/schedule_simulation.h"

namespace tombolo::collectives {
namespace {

/// The product's table with the new line in front.
std::vector<const Algorithm*> table_with_star() {
  std::vector<const Algorithm*> table{&kStarAllReduce};
  table.insert(table.end(), algorithms().begin(), algorithms().end());
  return table;
}

TEST(StarAllReduce, Sums) {
  std::mt19937 random(test_seed());
  for (const std::string_view clusters : {"A", "AA", "AB", "ABA", "AABBC"}) {
    for (const std::size_t count : {0, 1, 100}) {
      for (const bool in_place : {false, true}) {
        for (const bool average : {false, true}) {
          std::vector<RankMap> maps;
          for (int rank = 0; rank < static_cast<int>(clusters.size()); ++rank) {
            maps.push_back(RankMap::make(rank, test::locations_of(clusters)));
          }
          const Problem problem{count, test::kElement, average, 0};
          test::simulate_all_reduce(kStarAllReduce.build, maps, problem, {}, in_place,
                                    static_cast<std::uint32_t>(random()));
        }
      }
    }
  }
}

TEST(StarAllReduce, IsChosenWhereItApplies) {
  const auto table = table_with_star();
  const auto chosen = [&](std::string_view clusters, std::string_view name) {
    const RankMap map = RankMap::make(0, test::locations_of(clusters));
    return choose_algorithm(Collective::kAllReduce, name, map, {1'000'000, 4}, {}, table).name;
  };
  EXPECT_EQ(chosen("AAA", "auto"), "star");
  EXPECT_EQ(chosen("AAAA", "auto"), "ring");
  EXPECT_EQ(chosen("AAAA", "star"), "star") << "TOMBOLO_ALGORITHM=star";
  EXPECT_EQ(chosen("AAA", "ring"), "ring");
}

TEST(StarAllReduce, IsOfferedByName) {
  const auto table = table_with_star();
  EXPECT_NE(algorithm_choices(table).find("|star"), std::string::npos);
  EXPECT_NE(algorithm_help(table).find("star: all_reduce through one rank"), std::string::npos);
}

}  // namespace
}  // namespace tombolo::collectives
