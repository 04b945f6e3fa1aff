// 1F1B as a pure function: which micro-batch a stage works on, forward or backward, in which order.
#pragma once

#include <vector>

namespace tombolo::trainer {

struct Action {
  enum class Kind { kForward, kBackward };
  Kind kind;
  int micro_batch;
  bool operator==(const Action&) const = default;
};

/// Warm-up of min(stages - 1 - stage, micro_batches) forwards, then one forward and one backward in turns,
/// then the remaining backwards. Throws kInvalidUsage on stage outside [0, stages) or micro_batches < 1.
std::vector<Action> one_forward_one_backward(int stage, int stages, int micro_batches);

/// The most micro-batches whose activations a stage holds at once under that schedule.
int micro_batches_in_flight(int stage, int stages, int micro_batches);

}  // namespace tombolo::trainer
