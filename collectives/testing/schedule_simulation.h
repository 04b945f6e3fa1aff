// Schedules without sockets: all ranks' steps run in one thread on vectors of floats.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/format.h"
#include "collectives/data/data_type.h"
#include "collectives/schedule/collective.h"
#include "collectives/schedule/rank_map.h"
#include "collectives/schedule/schedule.h"
#include "collectives/schedule/tuning.h"

namespace tombolo::collectives::test {

using Vector = std::vector<float>;
inline constexpr std::size_t kElement = sizeof(float);

/// What a rank's input is multiplied by where a problem is premultiplied.
inline float factor_of(int rank) {
  return static_cast<float>(rank % 3 + 2);
}

/// What one rank brings to a simulation, and the schedule that it carries out.
struct SimulatedRank {
  Schedule schedule;
  Vector input, output;  // in place: only output is used
  Vector residual;       // where the schedule uses one
  bool in_place = false;
  std::ptrdiff_t input_in_output = 0;  // elements
  std::vector<std::byte> scratch;
  std::vector<std::uint32_t> waits;
  std::vector<bool> posted;
  std::vector<std::uint32_t> ready;
  std::map<int, std::deque<std::uint32_t>> sends, receives;  // per peer, in posting order
  std::size_t done = 0;
};

/// Carries out the schedules of all ranks in one thread: steps in random order as far as their dependencies
/// allow, over messages in memory. A schedule that needs an order that it does not state gives a wrong result
/// or deadlocks.
class ScheduleSimulation {
 public:
  ScheduleSimulation(std::vector<SimulatedRank> ranks, bool average, std::uint32_t seed)
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

  /// Payload by (sender, receiver).
  std::map<std::pair<int, int>, std::size_t> bytes;

  void run() {
    for (;;) {
      std::vector<std::function<void()>> possible;
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        SimulatedRank& rank = ranks_[r];
        for (std::size_t k = 0; k < rank.ready.size(); ++k)
          possible.push_back([this, r, k] { compute(r, k); });
        for (auto& [peer, queue] : rank.sends) {
          if (queue.empty() || rank.waits[queue.front()] != 0) continue;
          auto& other = ranks_[static_cast<std::size_t>(peer)];
          auto& theirs = other.receives[static_cast<int>(r)];
          // A message is delivered only once both sides are ready, because real connections might not buffer
          // it.
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
  const Vector& residual(int rank) const { return ranks_[static_cast<std::size_t>(rank)].residual; }

 private:
  static bool local(const Step& step) {
    return step.kind != StepKind::kSend && step.kind != StepKind::kReceive;
  }
  static std::byte* at(SimulatedRank& rank, Piece piece, std::size_t size) {
    std::byte* base = nullptr;
    std::size_t limit = 0;
    if (piece.buffer == Buffer::kScratch) {
      base = rank.scratch.data(), limit = rank.scratch.size();
    } else if (piece.buffer == Buffer::kResidual) {
      base = reinterpret_cast<std::byte*>(rank.residual.data()), limit = rank.residual.size() * kElement;
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
    SimulatedRank& rank = ranks_[r];
    ++rank.done;
    for (auto d = rank.schedule.dependents_begin[i]; d < rank.schedule.dependents_begin[i + 1]; ++d) {
      const auto next = rank.schedule.dependents[d];
      if (--rank.waits[next] == 0 && local(rank.schedule.steps[next])) rank.ready.push_back(next);
    }
  }
  void compute(std::size_t r, std::size_t k) {
    SimulatedRank& rank = ranks_[r];
    const auto i = rank.ready[k];
    rank.ready.erase(rank.ready.begin() + static_cast<std::ptrdiff_t>(k));
    const Step& step = rank.schedule.steps[i];
    const std::size_t count = step.bytes / kElement;
    const float own_factor = factor_of(static_cast<int>(r));
    const Factor factor = Factor::at(&own_factor, DataType::kFloat32);
    if (step.kind == StepKind::kCombine) {
      premultiplied_sum(at(rank, step.target, step.bytes), at(rank, step.left, step.bytes),
                        at(rank, step.right, step.bytes), step.premultiplied, count, DataType::kFloat32,
                        factor);
    } else if (step.kind == StepKind::kCopy && step.premultiplied == Premultiplied::kLeft) {
      premultiply(at(rank, step.target, step.bytes), at(rank, step.left, step.bytes), count,
                  DataType::kFloat32, factor);
    } else if (step.kind == StepKind::kCopy) {
      std::memmove(at(rank, step.target, step.bytes), at(rank, step.left, step.bytes), step.bytes);
    } else if (step.kind == StepKind::kEncode) {
      const bool feedback = step.right.buffer == Buffer::kResidual;
      encode(rank.schedule.compression, at(rank, step.left, step.bytes), count,
             at(rank, step.target, encoded_bytes(rank.schedule.compression, count)),
             feedback ? at(rank, step.right, step.bytes) : nullptr);
    } else if (step.kind == StepKind::kDecode) {
      decode(rank.schedule.compression, at(rank, step.left, encoded_bytes(rank.schedule.compression, count)),
             count, at(rank, step.target, step.bytes));
    } else if (step.kind == StepKind::kDecodeAdd) {
      decode_add(rank.schedule.compression,
                 at(rank, step.left, encoded_bytes(rank.schedule.compression, count)), count,
                 at(rank, step.right, step.bytes), at(rank, step.target, step.bytes));
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

  std::vector<SimulatedRank> ranks_;
  bool average_;
  std::mt19937 random_;
};

/// "ABAB": one letter per rank names its cluster; a host has so many of a cluster's ranks, but for the last.
inline std::vector<RankLocation> locations_of(std::string_view clusters, std::size_t ranks_per_host = 1) {
  std::vector<RankLocation> locations;
  std::map<char, std::size_t> ranks;
  for (const char cluster : clusters) {
    const std::size_t host = ranks[cluster]++ / ranks_per_host;
    locations.push_back({fmt::format("host{}", host), std::string(1, cluster)});
  }
  return locations;
}

inline Vector input_of(std::size_t count, int rank) {
  Vector vector(count);
  // Small integers: sums are exact, so one reference holds for every order.
  for (std::size_t i = 0; i < count; ++i)
    vector[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 13) % 97);
  return vector;
}

/// The sum (or average) of input_of() over all ranks, each times factor_of() where they are premultiplied.
inline Vector reference_sum(std::size_t ranks, std::size_t count, bool average, bool premultiplied = false) {
  Vector sum(count, 0);
  for (std::size_t r = 0; r < ranks; ++r) {
    const Vector one = input_of(count, static_cast<int>(r));
    const float factor = premultiplied ? factor_of(static_cast<int>(r)) : 1;
    for (std::size_t i = 0; i < count; ++i) sum[i] += factor * one[i];
  }
  if (average) {
    for (float& value : sum) value /= static_cast<float>(ranks);
  }
  return sum;
}

/// Runs an all-reduce of input_of() vectors among ranks of these maps, and checks every rank's result.
template <typename Build>
void simulate_all_reduce(Build build, const std::vector<RankMap>& maps, const Problem& problem,
                         const Tuning& tuning, bool in_place, std::uint32_t seed) {
  std::vector<SimulatedRank> ranks;
  for (const RankMap& map : maps) {
    SimulatedRank rank;
    rank.schedule = build(map, problem, tuning, in_place);
    rank.in_place = in_place;
    const Vector data = input_of(problem.count, map.rank);
    rank.output = in_place ? data : Vector(problem.count, -1);
    if (!in_place) rank.input = data;
    ranks.push_back(std::move(rank));
  }
  ScheduleSimulation simulation(std::move(ranks), problem.average, seed);
  simulation.run();
  const Vector expected = reference_sum(maps.size(), problem.count, problem.average, problem.premultiplied);
  for (const RankMap& map : maps) ASSERT_EQ(simulation.output(map.rank), expected) << map.rank;
}

}  // namespace tombolo::collectives::test
