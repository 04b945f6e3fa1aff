// The algorithms of two levels among many ranks, unlike hosts and unlike clusters, in any order: results, and
// how many messages they take.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "base/format.h"
#include "base/randomized_test.h"
#include "collectives/schedule/algorithms/two_level/grid_all_gather.h"
#include "collectives/schedule/algorithms/two_level/grid_reduce_scatter.h"
#include "collectives/schedule/algorithms/two_level/two_level_all_reduce.h"
#include "collectives/testing/algorithm_cases.h"

namespace tombolo::collectives {
namespace {

using namespace test;

/// The ranks of each host, by cluster.
using Shape = std::vector<std::vector<std::size_t>>;

std::vector<RankLocation> locations_of_shape(const Shape& shape) {
  std::vector<RankLocation> locations;
  for (std::size_t cluster = 0; cluster < shape.size(); ++cluster) {
    for (std::size_t host = 0; host < shape[cluster].size(); ++host)
      locations.insert(locations.end(), shape[cluster][host],
                       {fmt::format("host{}", host), fmt::format("cluster{}", cluster)});
  }
  return locations;
}

/// A call of this problem among ranks of such hosts. Returns the schedules.
class Call {
 public:
  Call(const Shape& shape, bool shuffled, std::uint32_t seed) : seed_(seed) {
    std::vector<RankLocation> locations = locations_of_shape(shape);
    std::mt19937 random(seed);
    if (shuffled) std::shuffle(locations.begin(), locations.end(), random);
    for (int rank = 0; rank < static_cast<int>(locations.size()); ++rank)
      maps.push_back(RankMap::make(rank, locations));
  }

  void all_reduce(const Problem& problem, const Tuning& tuning, bool in_place) const {
    simulate_all_reduce(kTwoLevelAllReduce.build, maps, problem, tuning, in_place, seed_);
  }

  /// Of `count` elements of each rank.
  void all_gather(const Problem& problem, const Tuning& tuning, bool in_place) const {
    const std::size_t count = problem.count;
    std::vector<SimulatedRank> ranks;
    Vector expected;
    for (const RankMap& map : maps) {
      SimulatedRank rank;
      rank.schedule = kGridAllGather.build(map, problem, tuning, in_place);
      rank.in_place = in_place;
      rank.input_in_output = static_cast<std::ptrdiff_t>(count) * map.rank;
      rank.output = Vector(maps.size() * count, -1);
      const Vector data = input_of(count, map.rank);
      expected.insert(expected.end(), data.begin(), data.end());
      if (in_place)
        std::ranges::copy(data, rank.output.begin() + rank.input_in_output);
      else
        rank.input = data;
      ranks.push_back(std::move(rank));
    }
    ScheduleSimulation simulation(std::move(ranks), false, seed_);
    simulation.run();
    for (const RankMap& map : maps) ASSERT_EQ(simulation.output(map.rank), expected) << map.rank;
  }

  void reduce_scatter(const Problem& problem, const Tuning& tuning, bool in_place) const {
    const std::size_t n = maps.size(), count = problem.count;
    std::vector<SimulatedRank> ranks;
    for (const RankMap& map : maps) {
      SimulatedRank rank;
      rank.schedule = kGridReduceScatter.build(map, problem, tuning, in_place);
      rank.in_place = in_place;
      rank.input_in_output = -static_cast<std::ptrdiff_t>(count) * map.rank;
      const Vector data = input_of(n * count, map.rank);
      rank.output = in_place ? data : Vector(count, -1);
      if (!in_place) rank.input = data;
      ranks.push_back(std::move(rank));
    }
    ScheduleSimulation simulation(std::move(ranks), problem.average, seed_);
    simulation.run();
    const Vector sum = reference_sum(n, n * count, problem.average, problem.premultiplied);
    for (const RankMap& map : maps) {
      const Vector& output = simulation.output(map.rank);
      const std::size_t own = static_cast<std::size_t>(map.rank) * count, at = in_place ? own : 0;
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(output[at + i], sum[own + i]) << map.rank << ' ' << i;
    }
  }

  std::vector<RankMap> maps;

 private:
  std::uint32_t seed_;
};

/// All three collectives, in place and not, of odd counts, in one piece and in many.
void try_all(const Shape& shape, std::mt19937& random) {
  for (const bool in_place : {false, true}) {
    const bool shuffled = random() % 2 == 0;
    const Call call(shape, shuffled, static_cast<std::uint32_t>(random()));
    Problem problem{random() % 4 == 0 ? random() % 4 : 1 + random() % 301, kElement, random() % 2 == 0, 0};
    Tuning tuning;
    if (random() % 2 == 0) tuning.segment_bytes = 60 + random() % 400;
    tuning.crossing_bytes = random() % 2 == 0 ? 0 : random() % 4096;
    tuning.latency_bytes = random() % 2 == 0 ? 0 : 1 << 20;  // crosses in one way
    SCOPED_TRACE(fmt::format("{} ranks, count {}, segment {}, latency {}{}{}", call.maps.size(),
                             problem.count, tuning.segment_bytes, tuning.latency_bytes,
                             shuffled ? ", shuffled" : "", in_place ? ", in place" : ""));
    const bool average = problem.average;
    problem.average = false;
    call.all_gather({1 + problem.count % 23, kElement, false, 0}, tuning, in_place);
    problem.average = average;
    problem.premultiplied = random() % 2 == 0;
    call.all_reduce(problem, tuning, in_place);
    problem.count = problem.count % 23;
    call.reduce_scatter(problem, tuning, in_place);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(ManyMembers, AnyNumberOfHostsOfOneCluster) {
  std::mt19937 random(test_seed());
  constexpr int kMost = 33, kStep = kMost / test_rounds(kMost);
  for (std::size_t hosts = 1; hosts <= kMost; hosts += kStep) {
    SCOPED_TRACE(fmt::format("{} hosts", hosts));
    try_all({std::vector<std::size_t>(hosts, 1)}, random);
    if (HasFailure()) return;
  }
  try_all({std::vector<std::size_t>(48, 2)}, random);
}

TEST(ManyMembers, UnlikeHostsAndClusters) {
  std::mt19937 random(test_seed());
  const Shape shapes[] = {{{4, 4, 2}},
                          {{1, 8}},
                          {{3, 5, 7}, {2, 2}},
                          {{2, 1, 2, 1, 2, 1, 2, 1, 2, 1}},
                          {std::vector<std::size_t>(11, 1), std::vector<std::size_t>(9, 1)},
                          {std::vector<std::size_t>(9, 2), {4, 4}, {1}},
                          {{1}, std::vector<std::size_t>(9, 2), {3, 2}, {2, 2}},
                          {{3}, {4}, {1, 1}, {2}, {1}}};
  // A few of them, drawn, under a sanitizer.
  constexpr int kShapes = std::size(shapes), kTried = test_rounds(kShapes);
  for (int i = 0; i < kTried; ++i) {
    const std::size_t at = kTried == kShapes ? static_cast<std::size_t>(i) : random() % kShapes;
    SCOPED_TRACE(fmt::format("shape {}", at));
    try_all(shapes[at], random);
    if (HasFailure()) return;
  }
}

TEST(ManyMembers, RandomShapes) {
  std::mt19937 random(test_seed());
  for (int round = 0; round < test_rounds(6); ++round) {
    Shape shape(1 + random() % 2);
    for (auto& hosts : shape) {
      hosts.resize(1 + random() % 11);
      const bool alike = random() % 2 == 0;
      const std::size_t ranks = 1 + random() % 2;
      for (std::size_t& host : hosts) host = alike ? ranks : 1 + random() % 3;
    }
    try_all(shape, random);
    if (HasFailure()) return;
  }
}

struct Count {
  std::size_t messages = 0;
  std::set<int> peers;
};

/// Of the rank that sends most.
Count most_of(const Algorithm& algorithm, const Shape& shape, const Problem& problem, const Tuning& tuning) {
  const Call call(shape, false, 1);
  Count most;
  for (const RankMap& map : call.maps) {
    Count count;
    for (const Step& step : algorithm.build(map, problem, tuning, false).steps) {
      count.messages += step.kind == StepKind::kSend ? 1 : 0;
      if (step.peer >= 0) count.peers.insert(step.peer);
    }
    if (count.messages > most.messages) most = count;
  }
  return most;
}

/// Each round is a message, or two where its parts go around the end of the vector.
TEST(ManyMembers, TakeMessagesLikeTheLogarithmOfTheHosts) {
  for (const std::size_t hosts : {9, 16, 33, 100, 256}) {
    const auto rounds = static_cast<std::size_t>(std::bit_width(hosts - 1));
    const Shape shape{std::vector<std::size_t>(hosts, 1)};
    SCOPED_TRACE(fmt::format("{} hosts", hosts));
    const Count sum = most_of(kTwoLevelAllReduce, shape, {hosts * 16, kElement, false, 0}, {});
    EXPECT_LE(sum.messages, 4 * rounds);
    EXPECT_LE(sum.peers.size(), 2 * rounds);
    // Nothing goes around an end here: what is not one piece is packed.
    EXPECT_EQ(most_of(kGridAllGather, shape, {16, kElement, false, 0}, {}).messages, rounds);
    EXPECT_EQ(most_of(kGridReduceScatter, shape, {16, kElement, false, 0}, {}).messages, rounds);
  }
}

/// A call of few bytes on all levels at once: a message to each mate, one each round, one to each cluster.
TEST(ManyMembers, TakeFewMessagesOnThreeLevels) {
  const Shape shape(3, std::vector<std::size_t>(16, 4));
  const std::size_t on_host = 3, rounds = 4, across = 2;
  EXPECT_EQ(most_of(kGridAllGather, shape, {4, kElement, false, 0}, {}).messages, on_host + rounds + across);
  // Each other cluster's parts, and then the own ones: a message to each mate, and one each round.
  EXPECT_LE(most_of(kGridReduceScatter, shape, {4, kElement, false, 0}, {}).messages,
            3 * (on_host + rounds) + across);
  Tuning tuning;
  tuning.latency_bytes = 1 << 20;
  EXPECT_LE(most_of(kTwoLevelAllReduce, shape, {4096, kElement, false, 0}, tuning).messages,
            2 * (on_host + 2 * rounds) + across);
}

/// A latency that counts once, and bytes that do not: each owner sends its sums to all others.
TEST(ManyMembers, ThreeClustersCrossInOneWayWhereThatIsQuicker) {
  const Shape shape(3, {1, 1});
  const auto crossing = [&](std::size_t latency_bytes) {
    Tuning tuning;
    tuning.latency_bytes = latency_bytes;
    const Call call(shape, false, 1);
    std::size_t bytes = 0;
    for (const RankMap& map : call.maps) {
      for (const Step& step : kTwoLevelAllReduce.build(map, {1200, kElement, false, 0}, tuning, false).steps)
        if (step.kind == StepKind::kSend && step.peer / 2 != map.rank / 2) bytes += step.bytes;
    }
    return bytes / 3;
  };
  // Two thirds of the 4800 bytes more than in two steps.
  EXPECT_EQ(crossing(3201), 2 * 4800U);
  EXPECT_EQ(crossing(3200), 4 * 1600U);
}

/// A host's bytes leave it once, whatever the numbers of ranks on it and on others.
TEST(ManyMembers, LeaveAnUnlikeHostOnce) {
  const Shape shape{{8, 4, 2}};
  const Call call(shape, false, 1);
  const std::size_t hosts[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2};
  std::map<std::size_t, std::size_t> leaving;
  const Problem problem{1200, kElement, false, 0};
  for (const RankMap& map : call.maps) {
    for (const Step& step : kTwoLevelAllReduce.build(map, problem, {}, false).steps) {
      const std::size_t from = hosts[static_cast<std::size_t>(map.rank)];
      if (step.kind == StepKind::kSend && hosts[static_cast<std::size_t>(step.peer)] != from)
        leaving[from] += step.bytes;
    }
  }
  // Two thirds as partial sums, and as much of what is complete.
  for (std::size_t host = 0; host < 3; ++host) EXPECT_EQ(leaving[host], 2 * problem.bytes() * 2 / 3) << host;
}

}  // namespace
}  // namespace tombolo::collectives
