#include "planner/model/schedule.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "planner/model/index.h"

namespace tombolo::planner {

namespace {

using Kind = Operation::Kind;

constexpr std::array<std::pair<Schedule, std::string_view>, 5> kScheduleNames{{
    {Schedule::kGPipe, "gpipe"},
    {Schedule::kOneForwardOneBackward, "1f1b"},
    {Schedule::kInterleaved, "interleaved"},
    {Schedule::kZeroBubbleH1, "zero-bubble-h1"},
    {Schedule::kInterleavedZeroBubble, "interleaved-zero-bubble"},
}};

std::vector<Operation> gpipe(int micro_batches) {
  std::vector<Operation> order;
  for (const Kind kind : {Kind::kForward, Kind::kBackward})
    for (int i = 0; i < micro_batches; ++i) order.push_back({kind, i, 0});
  return order;
}

/// The n-th operation of a kind where chunks alternate, each with as many micro-batches as there are stages;
/// the backward pass takes the chunks in the reverse order.
Operation nth_of_chunks(Kind kind, int n, int stages, int chunks) {
  const int turn = stages * chunks, chunk = n % turn / stages;
  return {kind, n / turn * stages + n % stages, kind == Kind::kForward ? chunk : chunks - 1 - chunk};
}

std::vector<Operation> interleaved(int stage, int stages, int micro_batches, int chunks) {
  const int total = micro_batches * chunks;
  const auto nth = [&](Kind kind, int n) { return nth_of_chunks(kind, n, stages, chunks); };
  const int warm_up = std::min(total, 2 * (stages - stage - 1) + (chunks - 1) * stages);
  std::vector<Operation> order;
  for (int n = 0; n < warm_up; ++n) order.push_back(nth(Kind::kForward, n));
  for (int n = warm_up; n < total; ++n) {
    order.push_back(nth(Kind::kForward, n));
    order.push_back(nth(Kind::kBackward, n - warm_up));
  }
  for (int n = total - warm_up; n < total; ++n) order.push_back(nth(Kind::kBackward, n));
  return order;
}

/// Every stage postpones the weights' gradients by as many micro-batches as there are stages before it. So
/// the number that it holds at most, stages - stage in 1F1B, grows to that of the first stage and no further.
std::vector<Operation> zero_bubble_h1(int stage, int stages, int micro_batches) {
  const int warm_up = std::min(stages - 1 - stage, micro_batches);
  std::vector<Operation> order;
  int weights = 0;
  const auto backward = [&](int i) {
    order.push_back({Kind::kBackwardInput, i, 0});
    // When no forward passes are left, the wait for the next stage's gradients is filled.
    if (i - weights >= stage || i >= micro_batches - warm_up)
      order.push_back({Kind::kBackwardWeights, weights++, 0});
  };
  for (int i = 0; i < warm_up; ++i) order.push_back({Kind::kForward, i, 0});
  for (int i = warm_up; i < micro_batches; ++i) {
    order.push_back({Kind::kForward, i, 0});
    backward(i - warm_up);
  }
  for (int i = micro_batches - warm_up; i < micro_batches; ++i) backward(i);
  while (weights < micro_batches) order.push_back({Kind::kBackwardWeights, weights++, 0});
  return order;
}

/// As 1F1B over chunks, but backward passes begin one forward pass earlier per stage that comes after this
/// one, since gradients of inputs alone come back sooner; those of weights follow as many operations later as
/// there are stages before this one.
std::vector<Operation> interleaved_zero_bubble(int stage, int stages, int micro_batches, int chunks) {
  const int total = micro_batches * chunks;
  const int warm_up = std::min(total, stages - stage - 1 + (chunks - 1) * stages);
  std::vector<Operation> order;
  order.reserve(3 * at(total));
  int weights = 0;
  const auto add = [&](Kind kind, int n) { order.push_back(nth_of_chunks(kind, n, stages, chunks)); };
  for (int n = 0; n < warm_up; ++n) add(Kind::kForward, n);
  for (int n = 0; n < total; ++n) {
    if (warm_up + n < total) add(Kind::kForward, warm_up + n);
    add(Kind::kBackwardInput, n);
    if (n >= stage) add(Kind::kBackwardWeights, weights++);
  }
  while (weights < total) add(Kind::kBackwardWeights, weights++);
  return order;
}

void check_stage(int stage, int stages, int micro_batches) {
  if (stage < 0 || stage >= stages || micro_batches < 1)
    fail(Cause::kInvalidUsage, "schedule: stage {} of {} with {} micro-batches", stage, stages,
         micro_batches);
}

}  // namespace

std::string_view schedule_name(Schedule schedule) noexcept {
  for (const auto& [one, name] : kScheduleNames)
    if (one == schedule) return name;
  return "?";
}

std::optional<Schedule> schedule_from_name(std::string_view name) noexcept {
  for (const auto& [one, its_name] : kScheduleNames)
    if (its_name == name) return one;
  return std::nullopt;
}

void check_schedule(Schedule schedule, int stages, int micro_batches, int chunks) {
  check_stage(0, stages, micro_batches);
  if (!interleaves(schedule)) {
    if (chunks != 1)
      fail(Cause::kInvalidUsage,
           "schedule: {} model chunks per stage, but only the interleaved ones take more than 1", chunks);
    return;
  }
  if (chunks < 1 || stages < 2 || micro_batches % stages != 0)
    fail(
        Cause::kInvalidUsage,
        "schedule: interleaved takes at least 2 stages and a multiple of their number of micro-batches; here "
        "are {} stages of {} chunks and {} micro-batches",
        stages, chunks, micro_batches);
}

std::vector<Operation> operations_of(Schedule schedule, int stage, int stages, int micro_batches,
                                     int chunks) {
  check_stage(stage, stages, micro_batches);
  check_schedule(schedule, stages, micro_batches, chunks);
  switch (schedule) {
    case Schedule::kGPipe:
      return gpipe(micro_batches);
    case Schedule::kOneForwardOneBackward:
      return one_forward_one_backward(stage, stages, micro_batches);
    case Schedule::kInterleaved:
      return interleaved(stage, stages, micro_batches, chunks);
    case Schedule::kZeroBubbleH1:
      return zero_bubble_h1(stage, stages, micro_batches);
    case Schedule::kInterleavedZeroBubble:
      return interleaved_zero_bubble(stage, stages, micro_batches, chunks);
  }
  return {};
}

std::vector<Operation> one_forward_one_backward(int stage, int stages, int micro_batches) {
  check_stage(stage, stages, micro_batches);
  const int warm_up = std::min(stages - 1 - stage, micro_batches);
  std::vector<Operation> order;
  order.reserve(2 * at(micro_batches));
  for (int i = 0; i < warm_up; ++i) order.push_back({Kind::kForward, i, 0});
  for (int i = warm_up; i < micro_batches; ++i) {
    order.push_back({Kind::kForward, i, 0});
    order.push_back({Kind::kBackward, i - warm_up, 0});
  }
  for (int i = micro_batches - warm_up; i < micro_batches; ++i) order.push_back({Kind::kBackward, i, 0});
  return order;
}

int micro_batches_in_flight(int stage, int stages, int micro_batches) noexcept {
  return std::min(stages - stage, micro_batches);
}

std::uint64_t most_held(std::span<const Operation> operations, std::span<const HeldBytes> by_chunk) {
  std::uint64_t held = 0, most = 0;
  for (const Operation& operation : operations) {
    const HeldBytes& bytes = by_chunk[at(operation.chunk)];
    switch (operation.kind) {
      case Kind::kForward:
        held += bytes.until_backward;
        most = std::max(most, held);
        break;
      case Kind::kBackward:
        held -= bytes.until_backward;
        break;
      case Kind::kBackwardInput:
        held -= bytes.until_backward - bytes.until_weights;
        break;
      case Kind::kBackwardWeights:
        held -= bytes.until_weights;
        break;
    }
  }
  return most;
}

}  // namespace tombolo::planner
