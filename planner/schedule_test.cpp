#include "planner/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/error.h"

namespace tombolo::planner {
namespace {

std::string text(const std::vector<Operation>& order) {
  std::string result;
  for (const Operation& operation : order) {
    result += operation.backward ? 'B' : 'F';
    result += std::to_string(operation.micro_batch);
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

TEST(OneForwardOneBackward, EveryMicroBatchGoesForwardThenBackwardAndNoMoreThanStatedAreInFlight) {
  for (int stages = 1; stages <= 5; ++stages)
    for (int count = 1; count <= 7; ++count)
      for (int stage = 0; stage < stages; ++stage) {
        std::vector<int> forward(static_cast<std::size_t>(count), 0),
            backward(static_cast<std::size_t>(count), 0);
        int in_flight = 0;
        int most = 0;
        for (const Operation& operation : one_forward_one_backward(stage, stages, count)) {
          const auto index = static_cast<std::size_t>(operation.micro_batch);
          if (!operation.backward) {
            ++forward[index];
            most = std::max(most, ++in_flight);
          } else {
            EXPECT_EQ(forward[index], 1);
            ++backward[index];
            --in_flight;
          }
        }
        EXPECT_EQ(most, micro_batches_in_flight(stage, stages, count));
        EXPECT_TRUE(std::ranges::all_of(forward, [](int times) { return times == 1; }));
        EXPECT_TRUE(std::ranges::all_of(backward, [](int times) { return times == 1; }));
      }
}

TEST(OneForwardOneBackward, RefusesStagesThatDoNotExist) {
  EXPECT_THROW(one_forward_one_backward(2, 2, 1), Error);
  EXPECT_THROW(one_forward_one_backward(0, 1, 0), Error);
}

}  // namespace
}  // namespace tombolo::planner
