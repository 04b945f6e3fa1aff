// The order in which a pipeline stage computes: memory-efficient 1F1B. The trainer executes it, the simulator
// predicts it.
#pragma once

#include <vector>

namespace tombolo::planner {

struct Operation {
  bool backward = false;
  int micro_batch = 0;
  friend bool operator==(const Operation&, const Operation&) = default;
};

/// Stage `stage` of `stages`: min(stages - 1 - stage, micro_batches) forwards, then one forward and one
/// backward in turn, then the backwards that are left. Throws kInvalidUsage on a stage outside [0, stages) or
/// micro_batches < 1.
std::vector<Operation> one_forward_one_backward(int stage, int stages, int micro_batches);

/// Micro-batches whose activations a stage holds at most at once: min(stages - stage, micro_batches).
int micro_batches_in_flight(int stage, int stages, int micro_batches) noexcept;

}  // namespace tombolo::planner
