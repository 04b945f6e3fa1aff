// What a simulated run beneath the engine's collectives does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/data/data_type.h"
#include "collectives/schedule/collective.h"
#include "collectives/schedule/tuning.h"
#include "tests/simulation/plans/plan.h"

namespace tombolo::simulation {

struct Transfer {
  unsigned from = 0, to = 0;  ///< ranks
  std::size_t bytes = 0;
};

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
};

struct CollectivePlan {
  struct Abort {
    unsigned rank = 0;
    Duration at{};
  };
  Plan network;                    ///< with faults and without messages
  std::vector<unsigned> clusters;  ///< of the ranks, each of which is a process on a host of its own
  std::string algorithm;
  collectives::Tuning tuning;
  bool halves = false;     ///< the communicator is split
  bool finalizes = false;  ///< before it is destroyed
  std::optional<Abort> abort;
  std::vector<CollectiveStep> steps;

  unsigned ranks() const noexcept { return static_cast<unsigned>(clusters.size()); }
};

CollectivePlan draw_collective_plan(std::uint64_t seed, Over over = Over::kTcp);
std::string describe(const CollectivePlan& plan);

}  // namespace tombolo::simulation
