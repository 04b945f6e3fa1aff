#include "planner/model/schedule.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "base/error.h"
#include "planner/model/index.h"

namespace tombolo::planner {
namespace {

using Kind = Operation::Kind;

std::string text(const std::vector<Operation>& order) {
  std::string result;
  for (const Operation& operation : order) {
    result += "FBIW"[static_cast<int>(operation.kind)];
    result += std::to_string(operation.micro_batch);
    if (operation.chunk > 0) result += std::string(static_cast<std::size_t>(operation.chunk), '\'');
    result += ' ';
  }
  return result;
}

TEST(OneForwardOneBackward, OrdersAreTheKnownOnes) {
  EXPECT_EQ(text(one_forward_one_backward(0, 1, 2)), "F0 B0 F1 B1 ");
  EXPECT_EQ(text(one_forward_one_backward(0, 3, 4)), "F0 F1 F2 B0 F3 B1 B2 B3 ");
  EXPECT_EQ(text(one_forward_one_backward(1, 3, 4)), "F0 F1 B0 F2 B1 F3 B2 B3 ");
  EXPECT_EQ(text(one_forward_one_backward(2, 3, 4)), "F0 B0 F1 B1 F2 B2 F3 B3 ");
  EXPECT_EQ(text(one_forward_one_backward(0, 4, 2)), "F0 F1 B0 B1 ");
}

TEST(OneForwardOneBackward, NoMoreThanStatedAreInFlight) {
  const HeldBytes one{1, 1};
  for (int stages = 1; stages <= 5; ++stages)
    for (int count = 1; count <= 7; ++count)
      for (int stage = 0; stage < stages; ++stage)
        EXPECT_EQ(most_held(one_forward_one_backward(stage, stages, count), {&one, 1}),
                  static_cast<std::uint64_t>(micro_batches_in_flight(stage, stages, count)));
}

TEST(OneForwardOneBackward, RefusesStagesThatDoNotExist) {
  EXPECT_THROW(one_forward_one_backward(2, 2, 1), Error);
  EXPECT_THROW(one_forward_one_backward(0, 1, 0), Error);
}

TEST(Interleaved, TheChunksTakeTurnsAsInMegatron) {
  EXPECT_EQ(text(operations_of(Schedule::kInterleaved, 1, 2, 4, 2)),
            "F0 F1 F0' B0' F1' B1' F2 B0 F3 B1 F2' B2' F3' B3' B2 B3 ");
  EXPECT_EQ(text(operations_of(Schedule::kInterleaved, 0, 2, 2, 2)), "F0 F1 F0' F1' B0' B1' B0 B1 ");
}

TEST(Interleaved, RefusesMicroBatchesThatTheStagesDoNotDivide) {
  EXPECT_THROW(operations_of(Schedule::kInterleaved, 0, 4, 6, 2), Error);
  EXPECT_THROW(operations_of(Schedule::kInterleaved, 0, 1, 4, 2), Error);
  EXPECT_THROW(operations_of(Schedule::kGPipe, 0, 2, 4, 2), Error);
}

TEST(ZeroBubbleH1, WeightsArePutOffByAsManyMicroBatchesAsThereAreStagesBefore) {
  EXPECT_EQ(text(operations_of(Schedule::kZeroBubbleH1, 0, 2, 3)), "F0 F1 I0 W0 F2 I1 W1 I2 W2 ");
  EXPECT_EQ(text(operations_of(Schedule::kZeroBubbleH1, 1, 2, 3)), "F0 I0 F1 I1 W0 F2 I2 W1 W2 ");
}

TEST(ZeroBubbleH1, HoldsNoMoreThanTheFirstStageOf1F1B) {
  const HeldBytes one{1, 1};
  for (int stages = 1; stages <= 6; ++stages)
    for (int count = 1; count <= 9; ++count)
      for (int stage = 0; stage < stages; ++stage)
        EXPECT_LE(most_held(operations_of(Schedule::kZeroBubbleH1, stage, stages, count), {&one, 1}),
                  static_cast<std::uint64_t>(std::min(stages, count)));
}

TEST(MostHeld, ASplitBackwardPassLetsGoInTwoSteps) {
  const HeldBytes chunk{10, 4};
  const std::vector<Operation> order{{Kind::kForward, 0, 0},         {Kind::kBackwardInput, 0, 0},
                                     {Kind::kForward, 1, 0},         {Kind::kBackwardInput, 1, 0},
                                     {Kind::kBackwardWeights, 0, 0}, {Kind::kBackwardWeights, 1, 0}};
  EXPECT_EQ(most_held(order, {&chunk, 1}), 14u);
}

TEST(MostHeld, GPipeHoldsEveryMicroBatch) {
  const HeldBytes chunk{10, 10};
  EXPECT_EQ(most_held(operations_of(Schedule::kGPipe, 1, 3, 7), {&chunk, 1}), 70u);
}

/// Runs every stage's order, each operation as soon as what it needs is there; false where they block each
/// other.
bool completes(Schedule schedule, int stages, int count, int chunks) {
  const int virtual_stages = stages * chunks;
  std::vector<std::vector<Operation>> orders;
  for (int stage = 0; stage < stages; ++stage)
    orders.push_back(operations_of(schedule, stage, stages, count, chunks));
  std::vector<std::size_t> next(orders.size(), 0);
  std::map<std::tuple<bool, int, int>, bool> done;  // backward, virtual stage, micro-batch
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t stage = 0; stage < orders.size(); ++stage) {
      while (next[stage] < orders[stage].size()) {
        const Operation& operation = orders[stage][next[stage]];
        const int here = operation.chunk * stages + static_cast<int>(stage), i = operation.micro_batch;
        bool ready = true;
        if (operation.kind == Kind::kForward)
          ready = here == 0 || done[{false, here - 1, i}];
        else if (operation.kind != Kind::kBackwardWeights)
          ready = done[{false, here, i}] && (here + 1 == virtual_stages || done[{true, here + 1, i}]);
        else
          ready = done[{true, here, i}];
        if (!ready) break;
        if (operation.kind != Kind::kBackwardWeights)
          done[{operation.kind != Kind::kForward, here, i}] = true;
        ++next[stage];
        moved = true;
      }
    }
  }
  for (std::size_t stage = 0; stage < orders.size(); ++stage)
    if (next[stage] != orders[stage].size()) return false;
  return true;
}

TEST(EverySchedule, PassesEveryMicroBatchThroughEveryChunkOnceAndNeverBlocks) {
  for (const Schedule schedule : {Schedule::kGPipe, Schedule::kOneForwardOneBackward, Schedule::kInterleaved,
                                  Schedule::kZeroBubbleH1, Schedule::kInterleavedZeroBubble})
    for (int stages = 1; stages <= 5; ++stages)
      for (int count = 1; count <= 12; ++count)
        for (int chunks = 1; chunks <= (interleaves(schedule) ? 3 : 1); ++chunks) {
          if (interleaves(schedule) && (stages < 2 || count % stages != 0)) continue;
          for (int stage = 0; stage < stages; ++stage) {
            std::map<std::tuple<Kind, int, int>, int> times;
            for (const Operation& one : operations_of(schedule, stage, stages, count, chunks))
              ++times[{one.kind, one.micro_batch, one.chunk}];
            const int kinds = splits_backward(schedule) ? 3 : 2;
            EXPECT_EQ(times.size(), at(kinds * count * chunks));
            EXPECT_TRUE(std::ranges::all_of(times, [](const auto& one) { return one.second == 1; }));
          }
          EXPECT_TRUE(completes(schedule, stages, count, chunks))
              << schedule_name(schedule) << ' ' << stages << " stages, " << count << " micro-batches, "
              << chunks;
        }
}

TEST(EverySchedule, HasAName) {
  for (const Schedule schedule : {Schedule::kGPipe, Schedule::kOneForwardOneBackward, Schedule::kInterleaved,
                                  Schedule::kZeroBubbleH1, Schedule::kInterleavedZeroBubble})
    EXPECT_EQ(schedule_from_name(schedule_name(schedule)), schedule);
  EXPECT_FALSE(schedule_from_name("2f2b"));
}

// As torch.distributed.pipelining.ScheduleInterleavedZeroBubble orders it: one forward pass less per stage
// that follows before the first backward pass, and gradients of weights as many operations late as stages
// come before.
TEST(InterleavedZeroBubble, PostponesGradientsOfWeightsByTheStagesBefore) {
  const auto text_of = [](int stage) {
    std::string text;
    for (const Operation& one : operations_of(Schedule::kInterleavedZeroBubble, stage, 2, 2, 2))
      text += fmt::format("{}{}{} ", "FBIW"[static_cast<int>(one.kind)], one.chunk, one.micro_batch);
    return text;
  };
  EXPECT_EQ(text_of(0), "F00 F01 F10 F11 I10 W10 I11 W11 I00 W00 I01 W01 ");
  EXPECT_EQ(text_of(1), "F00 F01 F10 I10 F11 I11 W10 I00 W11 I01 W00 W01 ");
}

}  // namespace
}  // namespace tombolo::planner
