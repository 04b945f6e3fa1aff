// The order in which a pipeline stage computes. The trainer executes it, the simulator predicts it, and the
// memory that a stage needs follows from it.
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
  kZeroBubbleH1,           ///< 1F1B with the weights' gradients postponed into the bubble (arXiv 2401.10241)
  /// The same over several model chunks per stage, as PyTorch's InterleavedZeroBubble orders it.
  kInterleavedZeroBubble,
};
/// "gpipe", "1f1b", "interleaved", "zero-bubble-h1", "interleaved-zero-bubble".
std::string_view schedule_name(Schedule schedule) noexcept;
/// The schedule of that name; nothing where there is none.
std::optional<Schedule> schedule_from_name(std::string_view name) noexcept;
/// Whether stages have several model chunks.
constexpr bool interleaves(Schedule schedule) noexcept {
  return schedule == Schedule::kInterleaved || schedule == Schedule::kInterleavedZeroBubble;
}
/// Whether the gradients of weights are computed apart from those of inputs.
constexpr bool splits_backward(Schedule schedule) noexcept {
  return schedule == Schedule::kZeroBubbleH1 || schedule == Schedule::kInterleavedZeroBubble;
}

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

/// The operations of one stage in a step, in order. Throws kInvalidUsage for a stage outside [0, stages), for
/// micro_batches < 1, and for chunks other than 1 except where it interleaves(), which needs at least two
/// stages and a multiple of `stages` micro-batches.
std::vector<Operation> operations_of(Schedule schedule, int stage, int stages, int micro_batches,
                                     int chunks = 1);

/// Throws as operations_of() does, for all stages.
void check_schedule(Schedule schedule, int stages, int micro_batches, int chunks);

/// The operations of kOneForwardOneBackward: min(stages - 1 - stage, micro_batches) forwards, then
/// alternately one forward and one backward, then the backwards that are left.
std::vector<Operation> one_forward_one_backward(int stage, int stages, int micro_batches);

/// The most micro-batches whose activations a stage of 1F1B holds at once: min(stages - stage,
/// micro_batches).
int micro_batches_in_flight(int stage, int stages, int micro_batches) noexcept;

/// The bytes that a micro-batch holds on one chunk: from its forward pass on, and, once the gradient of its
/// input is known, only for the gradient of the weights.
struct HeldBytes {
  std::uint64_t until_backward = 0, until_weights = 0;
};

/// The most that these operations hold at once, where each chunk's micro-batches hold `by_chunk`.
std::uint64_t most_held(std::span<const Operation> operations, std::span<const HeldBytes> by_chunk);

}  // namespace tombolo::planner
