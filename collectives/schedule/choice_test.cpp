#include "collectives/schedule/choice.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/format.h"
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

TEST(Choice, OfPartsThatDifferGoesByMessages) {
  const RankMap map = RankMap::make(0, locations_of("AA"));
  const Tuning tuning;
  Problem problem{10, kElement, false, 0};
  problem.uneven = true;
  problem.parts = std::make_shared<Parts>(Parts::adjoining({10, 20}));
  const Situation situation{.ranks = map, .tuning = tuning, .host_memory = true};
  EXPECT_EQ(choose(Collective::kAllGather, problem, situation).name(), "direct");
  for (const PossibleWay& one : possible_ways(Collective::kAllGather, problem, situation))
    EXPECT_NE(one.name, kHostWay);
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
