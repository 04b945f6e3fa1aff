#include "collectives/schedule/choice.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/format.h"
#include "base/units.h"
#include "collectives/testing/schedule_simulation.h"

namespace tombolo::collectives {
namespace {

using namespace test;

/// Calls `body` with every collective, several sizes, arrangements of ranks, and settings.
template <typename Body>
void for_each_call(const Body& body) {
  const Tuning tuning{.small_bytes = 4096, .host_bytes = 65536};
  for (const std::string_view clusters : {"A", "AA", "AAAAA", "AB", "AABB", "ABC"}) {
    const RankMap map = RankMap::make(0, locations_of(clusters));
    for (const std::string_view named : {"auto", "ring", "two-level"}) {
      for (const bool host : {false, true}) {
        const Situation situation{.ranks = map, .tuning = tuning, .named = named, .host_memory = host};
        for (const std::size_t count : {0, 1, 1024, 16384, 100'000}) {
          for (const Collective collective : kAllCollectives)
            body(collective, Problem{count, kElement, false, 0}, situation);
        }
      }
    }
  }
}

TEST(Choice, IsWhatTheTableOfAlgorithmsSaysWhereNoHostMemoryIs) {
  for_each_call([](Collective collective, const Problem& problem, const Situation& situation) {
    if (situation.host_memory) return;
    const Algorithm& expected =
        choose_algorithm(collective, situation.named, situation.ranks, problem, situation.tuning);
    EXPECT_EQ(choose(collective, problem, situation).algorithm, &expected);
  });
}

TEST(Choice, TakesTheHostsMemoryForCopiesAndSmallReductionsUnlessAnAlgorithmIsNamed) {
  for_each_call([](Collective collective, const Problem& problem, const Situation& situation) {
    if (!situation.host_memory) return;
    const Algorithm* named = find_algorithm(collective, situation.named);
    const Choice choice = choose(collective, problem, situation);
    EXPECT_EQ(choice.through_host_memory(),
              named == nullptr && (!is_reduction(collective) || problem.bytes() <= 65536))
        << collective_name(collective) << " of " << problem.bytes() << ", " << situation.named;
  });
}

/// As each rank knows it: of a gather and a scatter rank 0 is the root.
Problem uneven_problem(Collective collective, int rank, const std::vector<std::size_t>& counts) {
  Problem problem{counts[static_cast<std::size_t>(rank)], kElement, false, 0};
  problem.uneven = true;
  if (!is_rooted(collective) || rank == 0) problem.parts = std::make_shared<Parts>(Parts::adjoining(counts));
  if (collective == Collective::kAllToAll)
    problem.sent_parts =
        std::make_shared<Parts>(Parts::adjoining(std::vector<std::size_t>(counts.size(), problem.count)));
  return problem;
}

TEST(Choice, OfPartsThatDifferIsTheHostsMemoryOnEveryRankThatKnowsOnlySomeOfThem) {
  const Tuning tuning{.host_bytes = 100 * kElement};
  for (const Collective collective : kAllCollectives) {
    if (size_of_call(collective, {1, kElement}, 2) == kElement) continue;  // has no parts
    for (const std::size_t longest : {100U, 101U}) {
      for (const std::string_view named : {"auto", "direct"}) {
        const bool taken =
            named == kAutomatic && (collective != Collective::kReduceScatter || longest == 100);
        for (const int rank : {0, 1}) {
          const RankMap map = RankMap::make(rank, locations_of("AA"));
          const Situation situation{.ranks = map, .tuning = tuning, .named = named, .host_memory = true};
          const Problem problem = uneven_problem(collective, rank, {longest, 3});
          const Choice choice = choose(collective, problem, situation);
          EXPECT_EQ(choice.through_host_memory(), taken) << collective_name(collective) << " of " << longest;
          EXPECT_EQ(possible_ways(collective, problem, situation).front().name, kHostWay);
          if (collective == Collective::kReduceScatter && taken) {
            EXPECT_EQ(explain(choice, collective, problem, situation),
                      fmt::format("all ranks are on one host, and {0} of a rank are no more than {0} "
                                  "(TOMBOLO_HOST_LIMIT)",
                                  format_size(longest * kElement)));
          }
        }
      }
    }
  }
}

TEST(Choice, IsAmongThePossibleWaysAndTheFirstThatApplies) {
  for_each_call([](Collective collective, const Problem& problem, const Situation& situation) {
    const Choice choice = choose(collective, problem, situation);
    const auto ways = possible_ways(collective, problem, situation);
    const auto found = std::ranges::find(ways, choice.name(), &PossibleWay::name);
    ASSERT_NE(found, ways.end()) << choice.name();
    for (const PossibleWay& one : ways) EXPECT_FALSE(one.rule.empty()) << one.name;
    if (choice.reason == Reason::kNamed) return;
    EXPECT_EQ(found, std::ranges::find(ways, true, &PossibleWay::applies)) << choice.name();
  });
}

TEST(Choice, OffersNoWayThatIsNotPossible) {
  const Tuning tuning;
  const auto offers = [&](std::string_view clusters, const Problem& problem) {
    const RankMap map = RankMap::make(0, locations_of(clusters));
    const Situation situation{.ranks = map, .tuning = tuning};
    return std::ranges::any_of(possible_ways(Collective::kAllToAll, problem, situation),
                               [](const PossibleWay& one) { return one.name == "relayed"; });
  };
  Problem problem{10, 4, false, 0};
  EXPECT_TRUE(offers("AABB", problem));
  EXPECT_FALSE(offers("AAAA", problem)) << "nothing is far";
  problem.count = 1'000'000;
  EXPECT_FALSE(offers("AABB", problem)) << "too much to go a second way inside";
  problem.count = 10;
  problem.uneven = true;
  EXPECT_FALSE(offers("AABB", problem)) << "nobody knows what others send to others";
}

TEST(Choice, SaysWhy) {
  const Tuning tuning{.small_bytes = 4096, .host_bytes = 65536};
  const RankMap map = RankMap::make(0, locations_of("AABB"));
  const auto why = [&](std::size_t count, std::string_view named, bool host) {
    const Situation situation{.ranks = map, .tuning = tuning, .named = named, .host_memory = host};
    const Problem problem{count, 4, false, 0};
    const Choice choice = choose(Collective::kAllReduce, problem, situation);
    return explain(choice, Collective::kAllReduce, problem, situation);
  };
  EXPECT_EQ(why(1000, "ring", false), "TOMBOLO_ALGORITHM names ring");
  EXPECT_EQ(why(1024, "auto", true),
            "all ranks are on one host, and 4 KiB of a rank are no more than 64 KiB (TOMBOLO_HOST_LIMIT)");
  EXPECT_EQ(why(512, "auto", false), "doubling comes first and takes vectors of at most 2 KiB");
  const std::string far = why(100'000, "auto", false);
  EXPECT_TRUE(
      far.starts_with("doubling takes vectors of at most 2 KiB; two-level takes ranks of several clusters"))
      << far;
}

/// nccl-tests' sizes: the buffer that holds all ranks' parts, or the vector.
TEST(Choice, CountsTheBytesOfTheLongestBuffer) {
  const Problem problem{10, 4, false, 0};
  for (const Collective collective : kAllCollectives) {
    const bool parts = collective == Collective::kAllGather || collective == Collective::kReduceScatter ||
                       collective == Collective::kGather || collective == Collective::kScatter ||
                       collective == Collective::kAllToAll;
    EXPECT_EQ(size_of_call(collective, problem, 3), parts ? 120U : 40U) << collective_name(collective);
  }
  Problem uneven = problem;
  uneven.uneven = true;
  uneven.parts = std::make_shared<Parts>(Parts::adjoining({10, 1, 2}));
  EXPECT_EQ(size_of_call(Collective::kAllGather, uneven, 3), 52U);
}

}  // namespace
}  // namespace tombolo::collectives
