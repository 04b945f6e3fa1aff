// The order in which a pipeline stage computes. The trainer executes it, the simulator predicts it, and what
// is held in memory follows from it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace tombolo::planner {

enum class Schedule {
  kGPipe,                  ///< all forwards, then all backwards
  kOneForwardOneBackward,  ///< memory-efficient 1F1B
  kInterleaved,            ///< 1F1B over several model chunks per stage, as Megatron-LM orders it
  kZeroBubbleH1,           ///< 1F1B with the weights' gradients put off into the bubble (arXiv 2401.10241)
};
/// "gpipe", "1f1b", "interleaved", "zero-bubble-h1".
std::string_view schedule_name(Schedule schedule) noexcept;
std::optional<Schedule> schedule_from_name(std::string_view name) noexcept;

struct Operation {
  enum class Kind {
    kForward,
    kBackward,         ///< both of the following
    kBackwardInput,    ///< the gradient of the stage's input, which the stage before waits for
    kBackwardWeights,  ///< the gradient of the weights, for which no other stage waits
  };
  Kind kind = Kind::kForward;
  int micro_batch = 0;
  int chunk = 0;  ///< of the stage's model chunks; chunk c of stage s is virtual stage c x stages + s
  friend bool operator==(const Operation&, const Operation&) = default;
};

/// What one stage does in a step, in order. Throws kInvalidUsage on a stage outside [0, stages), on
/// micro_batches < 1, on chunks other than 1 but for kInterleaved, which takes at least two stages and a
/// multiple of `stages` micro-batches.
std::vector<Operation> operations_of(Schedule schedule, int stage, int stages, int micro_batches,
                                     int chunks = 1);

/// Throws as operations_of() does, for all stages.
void check_schedule(Schedule schedule, int stages, int micro_batches, int chunks);

/// kOneForwardOneBackward: min(stages - 1 - stage, micro_batches) forwards, then one forward and one backward
/// in turn, then the backwards that are left.
std::vector<Operation> one_forward_one_backward(int stage, int stages, int micro_batches);

/// Micro-batches whose activations a stage of 1F1B holds at most at once: min(stages - stage, micro_batches).
int micro_batches_in_flight(int stage, int stages, int micro_batches) noexcept;

/// Bytes that a micro-batch holds on one chunk: from its forward pass on, and once the gradient of its input
/// is known only for that of the weights.
struct HeldBytes {
  std::uint64_t until_backward = 0, until_weights = 0;
};

/// The most that is held at once by these operations, each chunk's micro-batches holding `by_chunk`.
std::uint64_t most_held(std::span<const Operation> operations, std::span<const HeldBytes> by_chunk);

}  // namespace tombolo::planner
