// What goes between clusters in the algorithms of two levels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/format.h"
#include "collectives/schedule/algorithms/two_level/two_level_all_gather.h"
#include "collectives/schedule/algorithms/two_level/two_level_all_reduce.h"
#include "collectives/schedule/algorithms/two_level/two_level_reduce_scatter.h"
#include "collectives/testing/algorithm_cases.h"

namespace tombolo::collectives {
namespace {

using namespace test;

/// Compressed between clusters: all ranks have the same bits, close to the sum, and what is lost is in the
/// residuals.
TEST(TwoLevel, CompressesBetweenClustersAlone) {
  for (const Compression compression : {Compression::kBfloat16, Compression::kInt8}) {
    for (const bool feedback : {false, true}) {
      for_each_case([&](const Case& one, std::uint32_t seed) {
        Problem problem = one.problem;
        problem.compression = compression;
        problem.residual = feedback;
        problem.premultiplied = seed % 2 == 0;
        const std::size_t n = one.maps.size(), count = problem.count;
        std::vector<SimulatedRank> ranks;
        for (const RankMap& map : one.maps) {
          SimulatedRank rank;
          rank.schedule = kTwoLevelAllReduce.build(map, problem, one.tuning, one.in_place);
          rank.in_place = one.in_place;
          rank.residual = Vector(feedback ? count : 0, 0);
          const Vector data = input_of(count, map.rank);
          rank.output = one.in_place ? data : Vector(count, -1);
          if (!one.in_place) rank.input = data;
          ranks.push_back(std::move(rank));
        }
        ScheduleSimulation simulation(std::move(ranks), problem.average, seed);
        simulation.run();
        const Vector expected = reference_sum(n, count, problem.average, problem.premultiplied);
        const auto divisor = problem.average ? static_cast<float>(n) : 1.0F;
        for (const RankMap& map : one.maps)
          ASSERT_EQ(simulation.output(map.rank), simulation.output(0)) << map.rank;
        for (std::size_t i = 0; i < count; ++i) {
          const float got = simulation.output(0)[i];
          if (one.maps[0].clusters.size() == 1) {
            ASSERT_EQ(got, expected[i]) << "one cluster: nothing is encoded";
            continue;
          }
          // Inputs are below 97; at most as many encodings as clusters, each of a sum of at most n inputs.
          const float largest = problem.premultiplied ? 97.0F * 4 : 97.0F;
          const float most = largest * static_cast<float>(n * one.maps[0].clusters.size()) / divisor;
          ASSERT_NEAR(got, expected[i], most / (compression == Compression::kInt8 ? 254 : 256) * 1.001F) << i;
          if (!feedback) continue;
          // What was lost on the way (before the average's division, the last encoding after it) is kept.
          float lost = 0;
          for (const RankMap& map : one.maps) lost += std::fabs(simulation.residual(map.rank)[i]);
          if (got != expected[i]) {
            ASSERT_GT(lost, 0) << i;
          }
          if (!problem.average) {
            float kept = got;
            for (const RankMap& map : one.maps) kept += simulation.residual(map.rank)[i];
            ASSERT_NEAR(kept, expected[i], 1e-3F * (1 + expected[i])) << i;
          }
        }
      });
    }
  }
}

TEST(TwoLevel, CrossesBetweenTwoClustersOncePerDirection) {
  for (const std::string_view clusters : {"AABB", "ABAB", "ABBBB", "AAABBBBB"}) {
    const auto locations = locations_of(clusters);
    const Problem problem{1000, kElement, false, 0};
    Tuning tuning;
    tuning.segment_bytes = 512;
    std::vector<SimulatedRank> ranks;
    for (int r = 0; r < static_cast<int>(locations.size()); ++r) {
      SimulatedRank rank;
      rank.schedule = kTwoLevelAllReduce.build(RankMap::make(r, locations), problem, tuning, false);
      rank.input = input_of(problem.count, r);
      rank.output = Vector(problem.count);
      ranks.push_back(std::move(rank));
    }
    ScheduleSimulation simulation(std::move(ranks), false, 1);
    simulation.run();
    std::map<std::pair<char, char>, std::size_t> crossing;
    for (const auto& [pair, bytes] : simulation.bytes) {
      crossing[{clusters[static_cast<std::size_t>(pair.first)],
                clusters[static_cast<std::size_t>(pair.second)]}] += bytes;
    }
    EXPECT_EQ((crossing[{'A', 'B'}]), problem.count * kElement) << clusters;
    EXPECT_EQ((crossing[{'B', 'A'}]), problem.count * kElement) << clusters;
  }
}

/// Of three clusters and more, each sends and gets the vector once, and what it combines for the others once
/// more for each but one of these.
TEST(TwoLevel, CrossesAmongMoreClustersAsTheirWeightsSay) {
  struct Given {
    std::string_view clusters;
    std::vector<std::uint32_t> weights;
    std::map<char, std::size_t> crossing;  // elements, of 1200
  };
  for (const Given& given :
       {Given{"AABBBCCCCC", {0, 1, 1}, {{'A', 1200}, {'B', 1800}, {'C', 1800}}},
        Given{"ABC", {}, {{'A', 1600}, {'B', 1600}, {'C', 1600}}},
        Given{"ABCABC", {0, 4, 0}, {{'A', 1200}, {'B', 2400}, {'C', 1200}}},
        Given{"ABCD", {1, 0, 0, 3}, {{'A', 1800}, {'B', 1200}, {'C', 1200}, {'D', 3000}}}}) {
    const auto locations = locations_of(given.clusters);
    const Problem problem{1200, kElement, false, 0};
    std::vector<SimulatedRank> ranks;
    for (int r = 0; r < static_cast<int>(locations.size()); ++r) {
      RankMap map = RankMap::make(r, locations);
      map.cluster_weights = given.weights;
      SimulatedRank rank;
      rank.schedule = kTwoLevelAllReduce.build(map, problem, {}, false);
      rank.input = input_of(problem.count, r);
      rank.output = Vector(problem.count);
      ranks.push_back(std::move(rank));
    }
    ScheduleSimulation simulation(std::move(ranks), false, 1);
    simulation.run();
    std::map<char, std::size_t> out, in;
    for (const auto& [pair, bytes] : simulation.bytes) {
      const char from = given.clusters[static_cast<std::size_t>(pair.first)],
                 to = given.clusters[static_cast<std::size_t>(pair.second)];
      if (from == to) continue;
      out[from] += bytes / kElement;
      in[to] += bytes / kElement;
    }
    for (const auto& [cluster, elements] : given.crossing) {
      const auto most = static_cast<double>(elements);
      EXPECT_NEAR(static_cast<double>(out[cluster]), most, 0.02 * most) << given.clusters << ' ' << cluster;
      EXPECT_NEAR(static_cast<double>(in[cluster]), most, 0.02 * most) << given.clusters << ' ' << cluster;
    }
  }
}

/// However many ranks a host has: what reduces leaves it once, and so does what gathers.
TEST(TwoLevel, LeavesAHostAsOftenAsIfItHadOneRank) {
  const auto leaving = [](std::string_view clusters, std::size_t ranks_per_host) {
    const auto locations = locations_of(clusters, ranks_per_host);
    const Problem problem{1024, kElement, false, 0};
    std::vector<SimulatedRank> ranks;
    for (int r = 0; r < static_cast<int>(locations.size()); ++r) {
      SimulatedRank rank;
      rank.schedule = kTwoLevelAllReduce.build(RankMap::make(r, locations), problem, {}, false);
      rank.input = input_of(problem.count, r);
      rank.output = Vector(problem.count);
      ranks.push_back(std::move(rank));
    }
    ScheduleSimulation simulation(std::move(ranks), false, 1);
    simulation.run();
    std::map<std::pair<std::string, std::string>, std::size_t> bytes;
    for (const auto& [pair, moved] : simulation.bytes) {
      const RankLocation& from = locations[static_cast<std::size_t>(pair.first)];
      const RankLocation& to = locations[static_cast<std::size_t>(pair.second)];
      if (from.cluster == to.cluster && from.host != to.host) bytes[{from.cluster, from.host}] += moved;
    }
    std::vector<std::size_t> all;
    for (const auto& [host, moved] : bytes) all.push_back(moved);
    return all;
  };
  const std::vector<std::size_t> once(4, 1024 * kElement);  // half reduced, half gathered, of two hosts
  EXPECT_EQ(leaving("AABB", 1), once);
  EXPECT_EQ(leaving("AAAABBBB", 2), once);
  EXPECT_EQ(leaving("ABABABABABABABAB", 4), once);
}

/// A part that another cluster's ranks gather, or whose sum one of them gets, goes to that cluster once.
TEST(TwoLevel, CrossesWithEachPartOnce) {
  for (const std::string_view clusters : {"AABB", "ABAB", "ABBBB", "AAABBBBB", "AABBBC", "ABCD"}) {
    for (const Algorithm* algorithm : {&kTwoLevelAllGather, &kTwoLevelReduceScatter}) {
      SCOPED_TRACE(fmt::format("{} {}", collective_name(algorithm->collective), clusters));
      const bool gathers = algorithm->collective == Collective::kAllGather;
      const auto locations = locations_of(clusters);
      const std::size_t n = locations.size();
      const Problem problem{1000, kElement, false, 0};
      Tuning tuning;
      tuning.segment_bytes = 512;
      std::vector<SimulatedRank> ranks;
      for (int r = 0; r < static_cast<int>(n); ++r) {
        SimulatedRank rank;
        rank.schedule = algorithm->build(RankMap::make(r, locations), problem, tuning, false);
        rank.input = input_of(problem.count * (gathers ? 1 : n), r);
        rank.output = Vector(problem.count * (gathers ? n : 1));
        ranks.push_back(std::move(rank));
      }
      ScheduleSimulation simulation(std::move(ranks), false, 1);
      simulation.run();
      std::map<std::pair<char, char>, std::size_t> crossing;
      for (const auto& [pair, bytes] : simulation.bytes)
        crossing[{clusters[static_cast<std::size_t>(pair.first)],
                  clusters[static_cast<std::size_t>(pair.second)]}] += bytes;
      for (const auto& [pair, bytes] : crossing) {
        if (pair.first == pair.second) continue;
        const auto parts = std::ranges::count(clusters, gathers ? pair.first : pair.second);
        EXPECT_EQ(bytes, static_cast<std::size_t>(parts) * problem.bytes()) << pair.first << pair.second;
      }
    }
  }
}

/// Members of a cluster share what crosses, so that all their NICs do.
TEST(TwoLevel, SharesWhatCrossesAmongAll) {
  const auto locations = locations_of("AAABBBBB");
  const Problem problem{1 << 20, kElement, false, 0};
  for (const Algorithm* algorithm : {&kTwoLevelAllGather, &kTwoLevelReduceScatter}) {
    const bool gathers = algorithm->collective == Collective::kAllGather;
    for (int r = 0; r < 8; ++r) {
      const RankMap map = RankMap::make(r, locations);
      const Schedule schedule = algorithm->build(map, problem, {}, false);
      std::size_t crossing = 0;
      for (const Step& step : schedule.steps) {
        const bool crosses = step.kind == (gathers ? StepKind::kReceive : StepKind::kSend);
        if (crosses && locations[static_cast<std::size_t>(step.peer)].cluster !=
                           locations[static_cast<std::size_t>(r)].cluster)
          crossing += step.bytes;
      }
      const std::size_t members = map.clusters[static_cast<std::size_t>(map.cluster)].size();
      const std::size_t fair = (8 - members) * problem.bytes() / members;
      EXPECT_NEAR(static_cast<double>(crossing), static_cast<double>(fair), 0.25 * static_cast<double>(fair))
          << collective_name(algorithm->collective) << " rank " << r;
    }
  }
}

}  // namespace
}  // namespace tombolo::collectives
