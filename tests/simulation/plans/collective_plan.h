// What a simulated run beneath the engine's collectives does.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/data/data_type.h"
#include "collectives/schedule/collective.h"
#include "collectives/schedule/tuning.h"
#include "tests/simulation/plans/plan.h"

namespace tombolo::simulation {

struct Transfer {
  unsigned from = 0, to = 0;  ///< ranks
  std::size_t bytes = 0;
  friend bool operator==(const Transfer&, const Transfer&) = default;
};

/// Types in which the values of a run, and their sums and products, are exact.
inline constexpr std::array kStepTypes{
    collectives::DataType::kInt8,    collectives::DataType::kUint8,   collectives::DataType::kInt32,
    collectives::DataType::kUint32,  collectives::DataType::kInt64,   collectives::DataType::kUint64,
    collectives::DataType::kFloat32, collectives::DataType::kFloat64, collectives::DataType::kBfloat16};

/// What all ranks do next: messages are started, a collective is called, the messages are waited for.
struct CollectiveStep {
  collectives::Collective collective = collectives::Collective::kBarrier;
  collectives::DataType type = collectives::DataType::kInt32;
  collectives::ReduceOp op = collectives::ReduceOp::kSum;
  std::size_t count = 0;
  unsigned root = 0;
  bool in_place = false;
  bool in_half = false;  ///< in the communicator of the even, or the odd, ranks
  /// The collective is only started, and waited for in a later step, before one in another communicator, or
  /// at the end.
  bool started = false;
  std::vector<Transfer> transfers;
  /// An average of integers truncates; one of floats rounds, by a rule that is not this simulator's business.
  bool may_average() const noexcept { return type < collectives::DataType::kFloat16; }
  friend bool operator==(const CollectiveStep&, const CollectiveStep&) = default;
};

struct CollectivePlan {
  struct Abort {
    unsigned rank = 0;
    Duration at{};
    friend bool operator==(const Abort&, const Abort&) = default;
  };
  static constexpr unsigned kFewestRanks = 2, kMostRanks = 6;
  Plan network;                    ///< with faults and without messages
  std::vector<unsigned> clusters;  ///< of the ranks, each of which is a process on a host of its own
  std::string algorithm = "auto";
  std::size_t segment_bytes = collectives::Tuning{}.segment_bytes;
  std::size_t small_bytes = collectives::Tuning{}.small_bytes;
  bool halves = false;     ///< the communicator is split
  bool finalizes = false;  ///< before it is destroyed
  std::optional<Abort> abort;
  std::vector<CollectiveStep> steps;

  unsigned ranks() const noexcept { return static_cast<unsigned>(clusters.size()); }
  /// Leaves a rank out; what it did, and what was to befall it, is rank 0's from then on.
  void leave_out_rank(unsigned rank);
  friend bool operator==(const CollectivePlan&, const CollectivePlan&) = default;
};

CollectivePlan draw_collective_plan(std::uint64_t seed, Over over = Over::kTcp);
std::string describe(const CollectivePlan& plan);
/// One line of JSON, which decode_collective_plan() reads. What is as usual need not be there.
std::string encode(const CollectivePlan& plan);
CollectivePlan decode_collective_plan(std::string_view text, const std::string& source);

}  // namespace tombolo::simulation
