// Every algorithm of the table as a pure schedule, in a simulation.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <random>

#include "base/randomized_test.h"
#include "collectives/schedule/algorithm.h"
#include "collectives/schedule/algorithms/dissemination_barrier.h"
#include "collectives/schedule/algorithms/two_level_all_reduce.h"
#include "collectives/testing/schedule_simulation.h"

namespace tombolo::collectives {
namespace {

using namespace test;

constexpr std::string_view kClusters[] = {
    "A",     "AA",  "AAA",    "AAAA",   "AAAAA",  "AB",   "AABB",     "ABAB",     "AAB",      "ABBBB",
    "AAABB", "ABC", "AABBCC", "ABCABC", "AABBBC", "ABCD", "ABABABAB", "AAAABBBB", "AAABBBBB", "AAAAAAA"};
constexpr std::size_t kCounts[] = {0, 1, 2, 5, 17, 64, 257};

/// One arrangement of ranks, with a problem and sizes.
struct Case {
  std::vector<RankLocation> locations;
  std::vector<RankMap> maps;
  Problem problem;
  Tuning tuning;
  bool in_place = false;
};

void for_each_case(const std::function<void(const Case&, std::uint32_t)>& action) {
  std::mt19937 random(test_seed());
  for (const auto clusters : kClusters) {
    for (const std::size_t count : kCounts) {
      for (const bool in_place : {false, true}) {
        Case one;
        one.locations = locations_of(clusters);
        for (int rank = 0; rank < static_cast<int>(clusters.size()); ++rank) {
          one.maps.push_back(RankMap::make(rank, one.locations));
        }
        one.problem = {count, kElement, random() % 2 == 0, static_cast<int>(random() % clusters.size())};
        one.tuning.segment_bytes = 4 + random() % 200;
        one.tuning.small_bytes = random() % 2 == 0 ? 0 : 4096;
        one.in_place = in_place;
        SCOPED_TRACE(std::string(clusters) + " count " + std::to_string(count) + " segment " +
                     std::to_string(one.tuning.segment_bytes) + (in_place ? " in place" : "") + " root " +
                     std::to_string(one.problem.root));
        action(one, static_cast<std::uint32_t>(random()));
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

/// Calls `action` for each algorithm of the collective.
void for_each_algorithm(Collective collective, const std::function<void(const Algorithm&)>& action) {
  std::size_t found = 0;
  for (const Algorithm* one : algorithms()) {
    if (one->collective != collective) continue;
    ++found;
    SCOPED_TRACE(std::string(collective_name(collective)) + " " + std::string(one->name));
    action(*one);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(found, 0U) << collective_name(collective);
}

TEST(Algorithms, AllReduceSums) {
  for_each_algorithm(Collective::kAllReduce, [](const Algorithm& algorithm) {
    for_each_case([&](const Case& one, std::uint32_t seed) {
      for (const bool premultiplied : {false, true}) {
        Problem problem = one.problem;
        problem.premultiplied = premultiplied;
        simulate_all_reduce(algorithm.build, one.maps, problem, one.tuning, one.in_place, seed);
      }
    });
  });
}

/// Compressed between clusters: all ranks have the same bits, close to the sum, and what is lost is in the
/// residuals.
TEST(Algorithms, TwoLevelCompressesBetweenClustersAlone) {
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

TEST(Algorithms, TwoLevelCrossesBetweenTwoClustersOncePerDirection) {
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

TEST(Algorithms, ReduceScatterGivesEveryRankItsPart) {
  for_each_algorithm(Collective::kReduceScatter, [](const Algorithm& algorithm) {
    for_each_case([&](const Case& one, std::uint32_t seed) {
      const std::size_t n = one.maps.size(), count = one.problem.count;
      Problem problem = one.problem;
      problem.premultiplied = seed % 2 == 0;
      std::vector<SimulatedRank> ranks;
      for (const RankMap& map : one.maps) {
        SimulatedRank rank;
        rank.schedule = algorithm.build(map, problem, one.tuning, one.in_place);
        rank.in_place = one.in_place;
        rank.input_in_output = -static_cast<std::ptrdiff_t>(count) * map.rank;
        const Vector data = input_of(n * count, map.rank);
        rank.output = one.in_place ? data : Vector(count, -1);
        if (!one.in_place) rank.input = data;
        ranks.push_back(std::move(rank));
      }
      ScheduleSimulation simulation(std::move(ranks), one.problem.average, seed);
      simulation.run();
      const Vector sum = reference_sum(n, n * count, problem.average, problem.premultiplied);
      for (const RankMap& map : one.maps) {
        const auto begin = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(map.rank) * count);
        const Vector expected(sum.begin() + begin, sum.begin() + begin + static_cast<std::ptrdiff_t>(count));
        const Vector& output = simulation.output(map.rank);
        const auto skip = one.in_place ? begin : 0;
        const Vector part(output.begin() + skip, output.begin() + skip + static_cast<std::ptrdiff_t>(count));
        ASSERT_EQ(part, expected) << map.rank;
      }
    });
  });
}

TEST(Algorithms, AllGatherGivesEveryRankEverything) {
  for_each_algorithm(Collective::kAllGather, [](const Algorithm& algorithm) {
    for_each_case([&](const Case& one, std::uint32_t seed) {
      const std::size_t n = one.maps.size(), count = one.problem.count;
      std::vector<SimulatedRank> ranks;
      Vector expected;
      for (const RankMap& map : one.maps) {
        SimulatedRank rank;
        rank.schedule = algorithm.build(map, one.problem, one.tuning, one.in_place);
        rank.in_place = one.in_place;
        rank.input_in_output = static_cast<std::ptrdiff_t>(count) * map.rank;
        rank.output = Vector(n * count, -1);
        const Vector data = input_of(count, map.rank);
        expected.insert(expected.end(), data.begin(), data.end());
        if (one.in_place) {
          std::copy(data.begin(), data.end(), rank.output.begin() + rank.input_in_output);
        } else {
          rank.input = data;
        }
        ranks.push_back(std::move(rank));
      }
      ScheduleSimulation simulation(std::move(ranks), false, seed);
      simulation.run();
      for (const RankMap& map : one.maps) ASSERT_EQ(simulation.output(map.rank), expected) << map.rank;
    });
  });
}

TEST(Algorithms, BroadcastAndReduceServeAnyRoot) {
  for (const Collective collective : {Collective::kBroadcast, Collective::kReduce}) {
    const bool reducing = collective == Collective::kReduce;
    for_each_algorithm(collective, [&](const Algorithm& algorithm) {
      for_each_case([&](const Case& one, std::uint32_t seed) {
        const std::size_t n = one.maps.size(), count = one.problem.count;
        Problem problem = one.problem;
        problem.premultiplied = reducing && seed % 2 == 0;
        std::vector<SimulatedRank> ranks;
        for (const RankMap& map : one.maps) {
          SimulatedRank rank;
          const bool in_place = one.in_place && map.rank == one.problem.root;
          rank.schedule = algorithm.build(map, problem, one.tuning, in_place);
          rank.in_place = in_place;
          const Vector data = input_of(count, map.rank);
          rank.output = in_place ? data : Vector(count, -1);
          if (!in_place) rank.input = data;
          ranks.push_back(std::move(rank));
        }
        ScheduleSimulation simulation(std::move(ranks), one.problem.average, seed);
        simulation.run();
        for (const RankMap& map : one.maps) {
          Vector expected = reducing ? reference_sum(n, count, problem.average, problem.premultiplied)
                                     : input_of(count, one.problem.root);
          if (reducing && map.rank != one.problem.root) expected = Vector(count, -1);
          ASSERT_EQ(simulation.output(map.rank), expected) << map.rank;
        }
      });
    });
  }
}

TEST(Algorithms, AllToAllTransposes) {
  for_each_algorithm(Collective::kAllToAll, [](const Algorithm& algorithm) {
    for_each_case([&](const Case& one, std::uint32_t seed) {
      const std::size_t n = one.maps.size(), count = one.problem.count;
      std::vector<SimulatedRank> ranks;
      for (const RankMap& map : one.maps) {
        SimulatedRank rank;
        rank.schedule = algorithm.build(map, one.problem, one.tuning, false);
        rank.input = input_of(n * count, map.rank);
        rank.output = Vector(n * count, -1);
        ranks.push_back(std::move(rank));
      }
      ScheduleSimulation simulation(std::move(ranks), false, seed);
      simulation.run();
      for (const RankMap& map : one.maps) {
        for (std::size_t from = 0; from < n; ++from) {
          const Vector theirs = input_of(n * count, static_cast<int>(from));
          for (std::size_t i = 0; i < count; ++i) {
            ASSERT_EQ(simulation.output(map.rank)[from * count + i],
                      theirs[static_cast<std::size_t>(map.rank) * count + i]);
          }
        }
      }
    });
  });
}

TEST(Algorithms, GatherAndScatterServeAnyRoot) {
  for (const Collective collective : {Collective::kGather, Collective::kScatter}) {
    const bool gathering = collective == Collective::kGather;
    for_each_algorithm(collective, [&](const Algorithm& algorithm) {
      for_each_case([&](const Case& one, std::uint32_t seed) {
        const std::size_t n = one.maps.size(), count = one.problem.count;
        std::vector<SimulatedRank> ranks;
        for (const RankMap& map : one.maps) {
          SimulatedRank rank;
          const bool is_root = map.rank == one.problem.root, in_place = one.in_place && is_root;
          rank.schedule = algorithm.build(map, one.problem, one.tuning, in_place);
          rank.in_place = in_place;
          const auto own = static_cast<std::ptrdiff_t>(count) * map.rank;
          rank.input_in_output = gathering ? own : -own;
          const Vector part = input_of(count, map.rank);
          const Vector whole = input_of(n * count, map.rank);
          if (gathering) {
            rank.output = Vector(is_root ? n * count : 0, -1);
            if (in_place) std::copy(part.begin(), part.end(), rank.output.begin() + own);
            if (!in_place) rank.input = part;
          } else {
            rank.output = in_place ? whole : Vector(count, -1);
            if (!in_place && is_root) rank.input = whole;
          }
          ranks.push_back(std::move(rank));
        }
        ScheduleSimulation simulation(std::move(ranks), false, seed);
        simulation.run();
        const Vector root_data = input_of(n * count, one.problem.root);
        for (const RankMap& map : one.maps) {
          const Vector& output = simulation.output(map.rank);
          if (gathering) {
            Vector expected;
            for (std::size_t from = 0; map.rank == one.problem.root && from < n; ++from) {
              const Vector part = input_of(count, static_cast<int>(from));
              expected.insert(expected.end(), part.begin(), part.end());
            }
            ASSERT_EQ(output, expected) << map.rank;
            continue;
          }
          const std::size_t begin = static_cast<std::size_t>(map.rank) * count;
          const std::size_t skip =
              output.size() > count ? begin : 0;  // in place, the output lies in the input
          for (std::size_t i = 0; i < count; ++i)
            ASSERT_EQ(output[skip + i], root_data[begin + i]) << map.rank;
        }
      });
    });
  }
}

TEST(Algorithms, BarrierHearsFromEveryRank) {
  // A rank that ends must depend, through messages, on every rank's start: follow the steps in time order.
  for (std::size_t n = 1; n <= 9; ++n) {
    const auto locations = locations_of(std::string(n, 'A'));
    std::vector<Schedule> schedules;
    std::vector<std::vector<bool>> heard(n, std::vector<bool>(n, false));
    for (std::size_t r = 0; r < n; ++r) {
      schedules.push_back(
          kDisseminationBarrier.build(RankMap::make(static_cast<int>(r), locations), {}, {}, false));
      heard[r][r] = true;
    }
    std::size_t rounds = 0;
    for (const Step& step : schedules[0].steps) rounds += step.kind == StepKind::kSend ? 1U : 0U;
    for (std::size_t round = 0; round < rounds; ++round) {
      const auto before = heard;
      for (std::size_t r = 0; r < n; ++r) {
        std::size_t sends = 0;
        for (const Step& step : schedules[r].steps) {
          if (step.kind != StepKind::kSend || sends++ != round) continue;
          for (std::size_t k = 0; k < n; ++k) {
            if (before[r][k]) heard[static_cast<std::size_t>(step.peer)][k] = true;
          }
        }
      }
    }
    for (std::size_t r = 0; r < n; ++r) EXPECT_EQ(heard[r], std::vector<bool>(n, true)) << n << " ranks";
  }
}

}  // namespace
}  // namespace tombolo::collectives
