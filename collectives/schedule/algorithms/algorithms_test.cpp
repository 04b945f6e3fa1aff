// Every algorithm of the table as a pure schedule, in a simulation.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "collectives/schedule/algorithm.h"
#include "collectives/schedule/algorithms/dissemination_barrier.h"
#include "collectives/testing/algorithm_cases.h"

namespace tombolo::collectives {
namespace {

using namespace test;

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

/// Parts of unlike sizes, with gaps between them that stay as they are.
TEST(Algorithms, UnevenPartsAreGatheredAndSummed) {
  for (const Collective collective : {Collective::kAllGather, Collective::kReduceScatter}) {
    const bool gathers = collective == Collective::kAllGather;
    for_each_algorithm(collective, [&](const Algorithm& algorithm) {
      for_each_case([&](const Case& one, std::uint32_t seed) {
        const std::size_t n = one.maps.size();
        std::mt19937 random(seed);
        Parts parts;
        std::size_t all = 0;
        for (std::size_t r = 0; r < n; ++r) {
          parts.counts.push_back(random() % 4 == 0 ? 0 : random() % (2 * one.problem.count + 1));
          parts.offsets.push_back(all);
          all += parts.counts.back() + 3;
        }
        Problem problem = one.problem;
        problem.uneven = true;
        problem.average = problem.average && !gathers;
        problem.premultiplied = !gathers && seed % 2 == 0;
        problem.parts = std::make_shared<const Parts>(parts);
        const auto part_in = [&](const Vector& whole, std::size_t r) {
          const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(parts.offsets[r]);
          return Vector(begin, begin + static_cast<std::ptrdiff_t>(parts.counts[r]));
        };
        Vector gathered(all, -1);
        std::vector<SimulatedRank> ranks;
        for (const RankMap& map : one.maps) {
          const auto r = static_cast<std::size_t>(map.rank);
          const auto at = static_cast<std::ptrdiff_t>(parts.offsets[r]);
          problem.count = parts.counts[r];
          SimulatedRank rank;
          rank.schedule = algorithm.build(map, problem, one.tuning, one.in_place);
          rank.in_place = one.in_place;
          rank.input_in_output = gathers ? at : -at;
          const Vector data = input_of(gathers ? problem.count : all, map.rank);
          if (gathers) {
            std::ranges::copy(data, gathered.begin() + at);
            rank.output = Vector(all, -1);
            if (one.in_place) std::ranges::copy(data, rank.output.begin() + at);
          } else {
            rank.output = one.in_place ? data : Vector(problem.count, -1);
          }
          if (!one.in_place) rank.input = data;
          ranks.push_back(std::move(rank));
        }
        ScheduleSimulation simulation(std::move(ranks), problem.average, seed);
        simulation.run();
        const Vector sum = reference_sum(n, all, problem.average, problem.premultiplied);
        for (std::size_t r = 0; r < n; ++r) {
          const Vector& output = simulation.output(static_cast<int>(r));
          if (gathers)
            ASSERT_EQ(output, gathered) << r;
          else
            ASSERT_EQ(one.in_place ? part_in(output, r) : output, part_in(sum, r)) << r;
        }
      });
    });
  }
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

// A communicator of one rank carries a schedule out by itself, without memory for scratch.
TEST(Algorithms, OneRankCopiesFromItsInputAtMost) {
  const RankMap alone = RankMap::make(0, locations_of("A"));
  std::mt19937 random(test_seed());
  for (const Algorithm* one : algorithms()) {
    for (const std::size_t count : kCounts) {
      Problem problem{count, kElement, random() % 2 == 0 && is_reduction(one->collective)};
      problem.premultiplied = random() % 2 == 0 && is_reduction(one->collective);
      if (one->collective == Collective::kAllReduce && random() % 2 == 0) {
        problem.compression = random() % 2 == 0 ? Compression::kInt8 : Compression::kBfloat16;
        problem.residual = random() % 2 == 0;
      }
      if (one->collective == Collective::kAllGather || one->collective == Collective::kReduceScatter) {
        problem.uneven = random() % 2 == 0;
        if (problem.uneven) problem.parts = std::make_shared<Parts>(Parts{{count}, {random() % 5}});
      }
      Tuning tuning;
      tuning.segment_bytes = 4 + random() % 200;
      const bool in_place = one->collective != Collective::kAllToAll && random() % 2 == 0;
      if (!one->is_possible(alone, problem)) continue;
      const Schedule schedule = one->build(alone, problem, tuning, in_place);
      for (const Step& step : schedule.steps) {
        if (step.kind == StepKind::kDivide) continue;
        EXPECT_EQ(step.kind, StepKind::kCopy);
        EXPECT_EQ(step.target.buffer, Buffer::kOutput);
        EXPECT_EQ(step.left.buffer, in_place ? Buffer::kOutput : Buffer::kInput);
      }
      ASSERT_FALSE(testing::Test::HasFailure())
          << collective_name(one->collective) << " by " << one->name << ", count " << count;
    }
  }
}

/// Which ranks each rank has heard of when its barrier is over: messages are followed from fence to fence.
std::vector<std::vector<bool>> heard_in(const std::vector<Schedule>& schedules) {
  const std::size_t n = schedules.size();
  using Heard = std::vector<bool>;
  std::vector<std::vector<Heard>> at_fence(
      n);  // by rank, of each phase its beginning, and of the last its end
  for (std::size_t r = 0; r < n; ++r) {
    Heard self(n, false);
    self[r] = true;
    const auto fences = std::ranges::count_if(schedules[r].steps,
                                              [](const Step& step) { return step.kind == StepKind::kFence; });
    at_fence[r].assign(static_cast<std::size_t>(fences) + 2, self);
  }
  // What the k-th message from one rank to another tells is what its sender had heard when the phase began.
  const auto phase_of = [&](std::size_t from, std::size_t to, std::size_t k) {
    std::size_t phase = 0, seen = 0;
    for (const Step& step : schedules[from].steps) {
      if (step.kind == StepKind::kFence) ++phase;
      if (step.kind == StepKind::kSend && step.peer == static_cast<int>(to) && seen++ == k) break;
    }
    return phase;
  };
  for (std::size_t turn = 0; turn < 2 * n; ++turn) {  // more than any chain of messages is long
    for (std::size_t r = 0; r < n; ++r) {
      std::size_t phase = 0;
      std::vector<std::size_t> received(n, 0);
      Heard now = at_fence[r][0];
      for (const Step& step : schedules[r].steps) {
        if (step.kind == StepKind::kFence) at_fence[r][++phase] = now;
        if (step.kind != StepKind::kReceive) continue;
        const auto from = static_cast<std::size_t>(step.peer);
        const Heard& told = at_fence[from][phase_of(from, r, received[from]++)];
        for (std::size_t k = 0; k < n; ++k) now[k] = now[k] || told[k];
      }
      at_fence[r].back() = now;
    }
  }
  std::vector<Heard> heard;
  for (const auto& phases : at_fence) heard.push_back(phases.back());
  return heard;
}

TEST(Algorithms, BarrierHearsFromEveryRank) {
  for (const std::string_view clusters : kClusters) {
    const auto locations = locations_of(clusters);
    const std::size_t n = clusters.size();
    std::vector<Schedule> schedules;
    for (std::size_t r = 0; r < n; ++r)
      schedules.push_back(
          kDisseminationBarrier.build(RankMap::make(static_cast<int>(r), locations), {}, {}, false));
    EXPECT_EQ(heard_in(schedules), std::vector<std::vector<bool>>(n, std::vector<bool>(n, true))) << clusters;
  }
}

}  // namespace
}  // namespace tombolo::collectives
