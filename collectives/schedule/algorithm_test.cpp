#include "collectives/schedule/algorithm.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "collectives/schedule/algorithms/doubling_all_reduce.h"
#include "collectives/schedule/algorithms/ring_all_reduce.h"
#include "collectives/schedule/algorithms/ring_reduce_scatter.h"
#include "collectives/schedule/algorithms/two_level/two_level_all_reduce.h"
#include "collectives/testing/schedule_simulation.h"

namespace tombolo::collectives {
namespace {

using namespace test;

constexpr std::string_view kArrangements[] = {"A",    "AA",   "AAAA", "AAAAA", "AB",
                                              "AABB", "ABAB", "ABC",  "ABCD"};

/// The rules of the automatic choice, written down a second time.
std::string_view expected_choice(Collective collective, std::string_view name, const RankMap& map,
                                 const Problem& problem, const Tuning& tuning, bool shared_routing) {
  const std::size_t bytes = problem.count * problem.element_bytes;
  const std::size_t all = bytes * static_cast<std::size_t>(map.size);
  const std::string_view by_clusters = map.clusters.size() > 1 && !shared_routing ? "two-level" : "ring";
  const bool relayed = map.clusters.size() == 2 && map.size == 4 && !shared_routing;  // two ranks in each
  const std::size_t for_each = relayed ? tuning.small_bytes / 2 : tuning.small_bytes;
  switch (collective) {
    case Collective::kAllReduce:
      if (name != "auto") return name;
      if (bytes <= (map.size == 2 ? 4 * tuning.small_bytes : for_each)) return "doubling";
      return by_clusters;
    case Collective::kReduceScatter:
      if (name != "auto") return name;
      if (relayed && all <= tuning.small_bytes) return "relayed";
      return map.size > 1 && all <= tuning.small_bytes ? "direct" : by_clusters;
    case Collective::kAllGather:
      if (name != "auto") return name;
      if (relayed && all <= for_each) return "relayed";
      return all <= tuning.small_bytes ? "direct" : by_clusters;
    case Collective::kBroadcast:
      return bytes <= tuning.small_bytes ? "tree" : "chain";
    case Collective::kReduce:
      return map.size > 1 && bytes <= tuning.small_bytes ? "tree" : "chain";
    case Collective::kGather:
    case Collective::kScatter:
      return "direct";
    case Collective::kAllToAll:
      return relayed && all <= tuning.small_bytes ? "relayed" : "direct";
    case Collective::kBarrier:
      return "dissemination";
  }
  return {};
}

TEST(AlgorithmTable, ChoosesBySizeAndRanksUnlessOneIsNamed) {
  Tuning tuning;
  tuning.small_bytes = 4096;
  for (const auto clusters : kArrangements) {
    for (const bool shared_routing : {false, true}) {
      RankMap map = RankMap::make(0, locations_of(clusters));
      map.uniform_links = shared_routing;
      for (const std::size_t count : {0, 1, 128, 512, 1024, 1025, 4096, 4097, 100000}) {
        for (const std::string_view name : {"auto", "ring", "two-level"}) {
          for (const Collective collective : kAllCollectives) {
            const Problem problem{count, kElement, false, 0};
            const Algorithm& chosen = choose_algorithm(collective, name, map, problem, tuning);
            EXPECT_EQ(chosen.collective, collective);
            EXPECT_EQ(chosen.name, expected_choice(collective, name, map, problem, tuning, shared_routing))
                << collective_name(collective) << " of " << count << " by " << name << " among " << clusters;
            // Schedules say which algorithm they are of.
            EXPECT_EQ(chosen.build(map, problem, tuning, false).algorithm, chosen.name);
          }
        }
      }
    }
  }
}

/// Some of this build's, so that another one changes nothing here.
constexpr const Algorithm* kOffered[] = {&kDoublingAllReduce, &kTwoLevelAllReduce, &kRingAllReduce,
                                         &kRingReduceScatter};

TEST(AlgorithmTable, OffersWhatCanBeNamed) {
  const AlgorithmTable table{kOffered};
  EXPECT_EQ(algorithm_choices(table), "auto|doubling|ring|two-level");
  EXPECT_EQ(algorithm_help(table),
            "doubling: all_reduce by recursive doubling; ring: all_reduce and reduce_scatter on a flat ring; "
            "two-level: all_reduce inside each cluster, then across");
  for (const AlgorithmTable one : {table, algorithms()}) {
    for (const char* name : {"auto", "ring", "two-level", "doubling"})
      EXPECT_TRUE(is_algorithm_choice(name, one)) << name;
    for (const char* name : {"all_reduce", "fastest", ""})
      EXPECT_FALSE(is_algorithm_choice(name, one)) << name;
  }
}

TEST(AlgorithmTable, NamesEachAlgorithmOnceAndEndsWithOneThatAlwaysApplies) {
  std::map<std::pair<Collective, std::string_view>, int> names;
  std::map<Collective, const Algorithm*> last;
  for (const Algorithm* one : algorithms()) {
    EXPECT_EQ(++names[std::pair(one->collective, one->name)], 1) << one->name;
    EXPECT_FALSE(one->help.empty()) << one->name;
    last[one->collective] = one;
  }
  EXPECT_EQ(last.size(), std::size(kAllCollectives));
  for (const auto& [collective, one] : last) EXPECT_EQ(one->applicable, &always) << one->name;
}

TEST(AlgorithmTable, AnAlgorithmOfAnotherCollectivesNameIsNotTaken) {
  const RankMap map = RankMap::make(0, locations_of("AABB"));
  const Problem problem{100'000, kElement, false, 0};
  EXPECT_EQ(choose_algorithm(Collective::kBroadcast, "two-level", map, problem, {}).name, "chain");
  EXPECT_EQ(choose_algorithm(Collective::kAllReduce, "tree", map, problem, {}).name, "two-level");
}

TEST(AlgorithmTable, ANamedAlgorithmIsTakenWhereItIsPossible) {
  const Problem problem{100'000, kElement, false, 0};
  for (const Algorithm* one : algorithms()) {
    for (const char* clusters : {"A", "AA", "AABB", "ABCAB"}) {
      const RankMap map = RankMap::make(0, locations_of(clusters));
      const Algorithm& chosen = choose_algorithm(one->collective, one->name, map, problem, {});
      EXPECT_EQ(&chosen == one, one->is_possible(map, problem))
          << one->name << " " << collective_name(one->collective) << " of " << clusters;
    }
  }
  const RankMap map = RankMap::make(0, locations_of("AA"));
  EXPECT_EQ(choose_algorithm(Collective::kAllToAll, "relayed", map, problem, {}).name, "direct")
      << "there is no other cluster";
}

TEST(AlgorithmTable, WithoutAnApplicableAlgorithmIsABrokenInvariant) {
  static constexpr const Algorithm* kOne[] = {&kTwoLevelAllReduce};
  const RankMap map = RankMap::make(0, locations_of("AA"));
  const Problem problem{10, kElement, false, 0};
  EXPECT_THROW(choose_algorithm(Collective::kBarrier, "auto", map, problem, {}, AlgorithmTable{kOne}), Error);
  EXPECT_THROW(choose_algorithm(Collective::kAllReduce, "auto", map, problem, {}, AlgorithmTable{kOne}),
               Error)
      << "one cluster";
  // Who names it gets it all the same.
  EXPECT_EQ(&choose_algorithm(Collective::kAllReduce, "two-level", map, problem, {}, AlgorithmTable{kOne}),
            &kTwoLevelAllReduce);
}

}  // namespace
}  // namespace tombolo::collectives
