// What simulated ranks give to collectives, and what these must make of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/simulation/plans/collective_plan.h"

namespace tombolo::simulation {

/// The view that one member has of a step: of all ranks, or of a half.
struct StepView {
  const CollectiveStep& step;
  std::size_t number = 0;                ///< of the step
  const std::vector<unsigned>& members;  ///< ranks
  std::size_t me = 0;                    ///< index in `members`

  std::size_t root() const noexcept { return step.root % members.size(); }
};

/// What the send buffer holds.
std::vector<std::byte> input_of(const StepView& view);
/// The size of the receive buffer.
std::size_t output_bytes(const StepView& view);
/// What the receive buffer holds afterwards; nothing where the step does not write it.
std::vector<std::byte> expected_of(const StepView& view);
/// The bytes of a message of a step.
std::vector<std::byte> message_of(const CollectiveStep& step, std::size_t number, std::size_t transfer);

}  // namespace tombolo::simulation
