// Every algorithm as a pure schedule: all ranks' steps run here in one thread, in random order as far as
// their dependencies allow, over in-memory messages. What needs an order that the schedule does not state
// fails.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <numeric>
#include <random>

#include "base/randomized_test.h"
#include "collectives/engine/data_type.h"
#include "collectives/schedule/algorithms/all_gather.h"
#include "collectives/schedule/algorithms/all_to_all.h"
#include "collectives/schedule/algorithms/barrier.h"
#include "collectives/schedule/algorithms/broadcast.h"
#include "collectives/schedule/algorithms/doubling_all_reduce.h"
#include "collectives/schedule/algorithms/reduce.h"
#include "collectives/schedule/algorithms/reduce_scatter.h"
#include "collectives/schedule/algorithms/ring_all_reduce.h"
#include "collectives/schedule/algorithms/two_level_all_reduce.h"

namespace tombolo::collectives {
namespace {

using Vector = std::vector<float>;
constexpr std::size_t kElement = sizeof(float);

struct Rank {
  Schedule schedule;
  Vector input, output;  // in place: only output is used
  bool in_place = false;
  std::ptrdiff_t input_in_output = 0;  // elements
  std::vector<std::byte> scratch;
  std::vector<std::uint32_t> waits;
  std::vector<bool> posted;
  std::vector<std::uint32_t> ready;
  std::map<int, std::deque<std::uint32_t>> sends, receives;  // per peer, in posting order
  std::size_t done = 0;
};

class Simulation {
 public:
  Simulation(std::vector<Rank> ranks, bool average, std::uint32_t seed)
      : ranks_(std::move(ranks)), average_(average), random_(seed) {
    for (auto& rank : ranks_) {
      rank.scratch.assign(rank.schedule.scratch_bytes, std::byte{0xff});
      rank.waits = rank.schedule.dependencies;
      for (std::uint32_t i = 0; i < rank.schedule.steps.size(); ++i) {
        const Step& step = rank.schedule.steps[i];
        if (step.kind == StepKind::kSend) rank.sends[step.peer].push_back(i);
        if (step.kind == StepKind::kReceive) rank.receives[step.peer].push_back(i);
        if (rank.waits[i] == 0 && local(step)) rank.ready.push_back(i);
      }
    }
  }

  /// Bytes between two clusters are counted by who asks.
  std::map<std::pair<int, int>, std::size_t> bytes;

  void run() {
    for (;;) {
      std::vector<std::function<void()>> possible;
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        Rank& rank = ranks_[r];
        for (std::size_t k = 0; k < rank.ready.size(); ++k)
          possible.push_back([this, r, k] { compute(r, k); });
        for (auto& [peer, queue] : rank.sends) {
          if (queue.empty() || rank.waits[queue.front()] != 0) continue;
          auto& other = ranks_[static_cast<std::size_t>(peer)];
          auto& theirs = other.receives[static_cast<int>(r)];
          // A message needs both sides: no buffering that real connections might not have.
          if (theirs.empty() || other.waits[theirs.front()] != 0) continue;
          possible.push_back([this, r, to = static_cast<std::size_t>(peer)] { transfer(r, to); });
        }
      }
      if (possible.empty()) break;
      possible[random_() % possible.size()]();
    }
    for (const auto& rank : ranks_)
      ASSERT_EQ(rank.done, rank.schedule.steps.size()) << "the schedules deadlock";
  }

  const Vector& output(int rank) const { return ranks_[static_cast<std::size_t>(rank)].output; }

 private:
  static bool local(const Step& step) {
    return step.kind != StepKind::kSend && step.kind != StepKind::kReceive;
  }
  static std::byte* at(Rank& rank, Piece piece, std::size_t size) {
    std::byte* base = nullptr;
    std::size_t limit = 0;
    if (piece.buffer == Buffer::kScratch) {
      base = rank.scratch.data(), limit = rank.scratch.size();
    } else {
      auto& vector = piece.buffer == Buffer::kInput ? rank.input : rank.output;
      base = reinterpret_cast<std::byte*>(vector.data()), limit = vector.size() * kElement;
      // In place for reduce-scatter: the output lies within the vector that holds the input.
      if (rank.in_place && rank.input_in_output < 0)
        piece.offset -= rank.input_in_output * std::ptrdiff_t{kElement};
    }
    EXPECT_GE(piece.offset, 0);
    EXPECT_LE(static_cast<std::size_t>(piece.offset) + size, limit);
    return base + piece.offset;
  }
  void finish(std::size_t r, std::uint32_t i) {
    Rank& rank = ranks_[r];
    ++rank.done;
    for (auto d = rank.schedule.dependents_begin[i]; d < rank.schedule.dependents_begin[i + 1]; ++d) {
      const auto next = rank.schedule.dependents[d];
      if (--rank.waits[next] == 0 && local(rank.schedule.steps[next])) rank.ready.push_back(next);
    }
  }
  void compute(std::size_t r, std::size_t k) {
    Rank& rank = ranks_[r];
    const auto i = rank.ready[k];
    rank.ready.erase(rank.ready.begin() + static_cast<std::ptrdiff_t>(k));
    const Step& step = rank.schedule.steps[i];
    const std::size_t count = step.bytes / kElement;
    if (step.kind == StepKind::kCombine) {
      combine(at(rank, step.target, step.bytes), at(rank, step.left, step.bytes),
              at(rank, step.right, step.bytes), count, DataType::kFloat32, ReduceOp::kSum);
    } else if (step.kind == StepKind::kCopy) {
      std::memmove(at(rank, step.target, step.bytes), at(rank, step.left, step.bytes), step.bytes);
    } else if (step.kind == StepKind::kDivide) {
      ASSERT_TRUE(average_);
      divide(at(rank, step.target, step.bytes), count, DataType::kFloat32, ranks_.size());
    }
    finish(r, i);
  }
  void transfer(std::size_t from, std::size_t to) {
    auto& sends = ranks_[from].sends[static_cast<int>(to)];
    auto& receives = ranks_[to].receives[static_cast<int>(from)];
    const auto sending = sends.front(), receiving = receives.front();
    sends.pop_front();
    receives.pop_front();
    const Step& out = ranks_[from].schedule.steps[sending];
    const Step& in = ranks_[to].schedule.steps[receiving];
    ASSERT_EQ(out.bytes, in.bytes) << "rank " << from << " to rank " << to;
    std::memcpy(at(ranks_[to], in.target, in.bytes), at(ranks_[from], out.left, out.bytes), out.bytes);
    bytes[{static_cast<int>(from), static_cast<int>(to)}] += out.bytes;
    finish(from, sending);
    finish(to, receiving);
  }

  std::vector<Rank> ranks_;
  bool average_;
  std::mt19937 random_;
};

using Places = std::vector<Layout::Place>;

/// "ABAB": one letter per rank names its cluster; every rank has its own host.
Places places_of(std::string_view clusters) {
  Places places;
  for (std::size_t i = 0; i < clusters.size(); ++i) {
    places.push_back({"host" + std::to_string(i), std::string(1, clusters[i])});
  }
  return places;
}

Vector filled(std::size_t count, int rank) {
  Vector vector(count);
  // Small integers: sums are exact, so one reference holds for every order.
  for (std::size_t i = 0; i < count; ++i)
    vector[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 13) % 97);
  return vector;
}

constexpr std::string_view kLayouts[] = {
    "A",     "AA",  "AAA",    "AAAA",   "AAAAA",  "AB",   "AABB",     "ABAB",     "AAB",      "ABBBB",
    "AAABB", "ABC", "AABBCC", "ABCABC", "AABBBC", "ABCD", "ABABABAB", "AAAABBBB", "AAABBBBB", "AAAAAAA"};
constexpr std::size_t kCounts[] = {0, 1, 2, 5, 17, 64, 257};

using AllReduce = Schedule (*)(const Layout&, const Problem&, const Tuning&, bool);

/// Runs `make` on every layout, count, segment size, in place or not; `check` looks at the result.
struct Case {
  Places places;
  std::vector<Layout> layouts;
  Problem problem;
  Tuning tuning;
  bool in_place = false;
};

void for_each_case(const std::function<void(const Case&, std::uint32_t)>& action) {
  std::mt19937 random(test_seed());
  for (const auto clusters : kLayouts) {
    for (const std::size_t count : kCounts) {
      for (const bool in_place : {false, true}) {
        Case one;
        one.places = places_of(clusters);
        for (int rank = 0; rank < static_cast<int>(clusters.size()); ++rank) {
          one.layouts.push_back(Layout::make(rank, one.places));
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

Vector reference_sum(std::size_t ranks, std::size_t count, bool average) {
  Vector sum(count, 0);
  for (std::size_t r = 0; r < ranks; ++r) {
    const Vector one = filled(count, static_cast<int>(r));
    for (std::size_t i = 0; i < count; ++i) sum[i] += one[i];
  }
  if (average) {
    for (float& value : sum) value /= static_cast<float>(ranks);
  }
  return sum;
}

void check_all_reduce(AllReduce make) {
  for_each_case([&](const Case& one, std::uint32_t seed) {
    std::vector<Rank> ranks;
    for (const Layout& layout : one.layouts) {
      Rank rank;
      rank.schedule = make(layout, one.problem, one.tuning, one.in_place);
      rank.in_place = one.in_place;
      const Vector data = filled(one.problem.count, layout.rank);
      rank.output = one.in_place ? data : Vector(one.problem.count, -1);
      if (!one.in_place) rank.input = data;
      ranks.push_back(std::move(rank));
    }
    Simulation simulation(std::move(ranks), one.problem.average, seed);
    simulation.run();
    const Vector expected = reference_sum(one.layouts.size(), one.problem.count, one.problem.average);
    for (const Layout& layout : one.layouts)
      ASSERT_EQ(simulation.output(layout.rank), expected) << layout.rank;
  });
}

TEST(Algorithms, RingAllReduceSums) {
  check_all_reduce(ring_all_reduce);
}
TEST(Algorithms, TwoLevelAllReduceSums) {
  check_all_reduce(two_level_all_reduce);
}
TEST(Algorithms, DoublingAllReduceSums) {
  check_all_reduce(doubling_all_reduce);
}

TEST(Algorithms, TwoLevelCrossesBetweenTwoClustersOncePerDirection) {
  for (const std::string_view clusters : {"AABB", "ABAB", "ABBBB", "AAABBBBB"}) {
    const Places places = places_of(clusters);
    const Problem problem{1000, kElement, false, 0};
    Tuning tuning;
    tuning.segment_bytes = 512;
    std::vector<Rank> ranks;
    for (int r = 0; r < static_cast<int>(places.size()); ++r) {
      Rank rank;
      rank.schedule = two_level_all_reduce(Layout::make(r, places), problem, tuning, false);
      rank.input = filled(problem.count, r);
      rank.output = Vector(problem.count);
      ranks.push_back(std::move(rank));
    }
    Simulation simulation(std::move(ranks), false, 1);
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
  for_each_case([&](const Case& one, std::uint32_t seed) {
    const std::size_t n = one.layouts.size(), count = one.problem.count;
    std::vector<Rank> ranks;
    for (const Layout& layout : one.layouts) {
      Rank rank;
      rank.schedule = reduce_scatter(layout, one.problem, one.tuning, one.in_place);
      rank.in_place = one.in_place;
      rank.input_in_output = -static_cast<std::ptrdiff_t>(count) * layout.rank;
      const Vector data = filled(n * count, layout.rank);
      rank.output = one.in_place ? data : Vector(count, -1);
      if (!one.in_place) rank.input = data;
      ranks.push_back(std::move(rank));
    }
    Simulation simulation(std::move(ranks), one.problem.average, seed);
    simulation.run();
    const Vector sum = reference_sum(n, n * count, one.problem.average);
    for (const Layout& layout : one.layouts) {
      const auto begin = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(layout.rank) * count);
      const Vector expected(sum.begin() + begin, sum.begin() + begin + static_cast<std::ptrdiff_t>(count));
      const Vector& output = simulation.output(layout.rank);
      const auto skip = one.in_place ? begin : 0;
      const Vector part(output.begin() + skip, output.begin() + skip + static_cast<std::ptrdiff_t>(count));
      ASSERT_EQ(part, expected) << layout.rank;
    }
  });
}

TEST(Algorithms, AllGatherGivesEveryRankEverything) {
  for_each_case([&](const Case& one, std::uint32_t seed) {
    const std::size_t n = one.layouts.size(), count = one.problem.count;
    std::vector<Rank> ranks;
    Vector expected;
    for (const Layout& layout : one.layouts) {
      Rank rank;
      rank.schedule = all_gather(layout, one.problem, one.tuning, one.in_place);
      rank.in_place = one.in_place;
      rank.input_in_output = static_cast<std::ptrdiff_t>(count) * layout.rank;
      rank.output = Vector(n * count, -1);
      const Vector data = filled(count, layout.rank);
      expected.insert(expected.end(), data.begin(), data.end());
      if (one.in_place) {
        std::copy(data.begin(), data.end(), rank.output.begin() + rank.input_in_output);
      } else {
        rank.input = data;
      }
      ranks.push_back(std::move(rank));
    }
    Simulation simulation(std::move(ranks), false, seed);
    simulation.run();
    for (const Layout& layout : one.layouts)
      ASSERT_EQ(simulation.output(layout.rank), expected) << layout.rank;
  });
}

TEST(Algorithms, BroadcastAndReduceServeAnyRoot) {
  for (const bool reducing : {false, true}) {
    for_each_case([&](const Case& one, std::uint32_t seed) {
      const std::size_t n = one.layouts.size(), count = one.problem.count;
      std::vector<Rank> ranks;
      for (const Layout& layout : one.layouts) {
        Rank rank;
        const bool in_place = one.in_place && layout.rank == one.problem.root;
        rank.schedule = (reducing ? reduce : broadcast)(layout, one.problem, one.tuning, in_place);
        rank.in_place = in_place;
        const Vector data = filled(count, layout.rank);
        rank.output = in_place ? data : Vector(count, -1);
        if (!in_place) rank.input = data;
        ranks.push_back(std::move(rank));
      }
      Simulation simulation(std::move(ranks), one.problem.average, seed);
      simulation.run();
      for (const Layout& layout : one.layouts) {
        Vector expected =
            reducing ? reference_sum(n, count, one.problem.average) : filled(count, one.problem.root);
        if (reducing && layout.rank != one.problem.root) expected = Vector(count, -1);
        ASSERT_EQ(simulation.output(layout.rank), expected) << layout.rank;
      }
    });
  }
}

TEST(Algorithms, AllToAllTransposes) {
  for_each_case([&](const Case& one, std::uint32_t seed) {
    const std::size_t n = one.layouts.size(), count = one.problem.count;
    std::vector<Rank> ranks;
    for (const Layout& layout : one.layouts) {
      Rank rank;
      rank.schedule = all_to_all(layout, one.problem, one.tuning);
      rank.input = filled(n * count, layout.rank);
      rank.output = Vector(n * count, -1);
      ranks.push_back(std::move(rank));
    }
    Simulation simulation(std::move(ranks), false, seed);
    simulation.run();
    for (const Layout& layout : one.layouts) {
      for (std::size_t from = 0; from < n; ++from) {
        const Vector theirs = filled(n * count, static_cast<int>(from));
        for (std::size_t i = 0; i < count; ++i) {
          ASSERT_EQ(simulation.output(layout.rank)[from * count + i],
                    theirs[static_cast<std::size_t>(layout.rank) * count + i]);
        }
      }
    }
  });
}

TEST(Algorithms, BarrierHearsFromEverybody) {
  // Whoever ends must depend, through messages, on every rank's start: follow the steps in time order.
  for (std::size_t n = 1; n <= 9; ++n) {
    const Places places = places_of(std::string(n, 'A'));
    std::vector<Schedule> schedules;
    std::vector<std::vector<bool>> heard(n, std::vector<bool>(n, false));
    for (std::size_t r = 0; r < n; ++r) {
      schedules.push_back(barrier(Layout::make(static_cast<int>(r), places)));
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

TEST(Layout, OrdersByClusterThenHostThenRank) {
  const Places places{{"a1", "A"}, {"b1", "B"}, {"a2", "A"}, {"b1", "B"}, {"a1", "A"}};
  const Layout layout = Layout::make(4, places);
  EXPECT_EQ(layout.order, (std::vector<int>{0, 4, 2, 1, 3}));
  EXPECT_EQ(layout.clusters, (std::vector<std::vector<int>>{{0, 4, 2}, {1, 3}}));
  EXPECT_EQ(layout.position, 1);
  EXPECT_EQ(layout.cluster, 0);
  EXPECT_EQ(layout.index, 1);
}

TEST(Schedule, OrdersOnlyWhatTouchesTheSameBytes) {
  ScheduleBuilder builder(false, 0);
  const Piece a = builder.scratch(64), b = builder.scratch(64);
  builder.receive(1, a, 64);       // 0
  builder.receive(1, b, 64);       // 1
  builder.send(2, a + 32, 32);     // 2 reads what 0 wrote
  builder.combine(b, b, a, 32);    // 3 after 0 and 1
  builder.receive(1, a + 32, 32);  // 4 after 2 read it (and 0 wrote it)
  builder.send(2, b + 32, 32);     // 5 after 1 only
  const Schedule schedule = builder.build("test");
  const auto waits_for = [&](std::uint32_t step) {
    std::vector<std::uint32_t> all;
    for (std::uint32_t before = 0; before < schedule.steps.size(); ++before) {
      for (auto d = schedule.dependents_begin[before]; d < schedule.dependents_begin[before + 1]; ++d) {
        if (schedule.dependents[d] == step) all.push_back(before);
      }
    }
    return all;
  };
  EXPECT_EQ(waits_for(2), (std::vector<std::uint32_t>{0}));
  EXPECT_EQ(waits_for(3), (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(waits_for(4), (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(waits_for(5), (std::vector<std::uint32_t>{1}));
}

}  // namespace
}  // namespace tombolo::collectives
