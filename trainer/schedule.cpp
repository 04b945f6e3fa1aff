#include "trainer/schedule.h"

#include <algorithm>

#include "base/error.h"

namespace tombolo::trainer {

std::vector<Action> one_forward_one_backward(int stage, int stages, int micro_batches) {
  if (stage < 0 || stage >= stages || micro_batches < 1)
    fail(Cause::kInvalidUsage, "schedule: stage {} of {} with {} micro-batches", stage, stages,
         micro_batches);
  const int warm_up = std::min(stages - 1 - stage, micro_batches);
  std::vector<Action> actions;
  int forward = 0;
  int backward = 0;
  for (; forward < warm_up; ++forward) actions.push_back({Action::Kind::kForward, forward});
  while (forward < micro_batches) {
    actions.push_back({Action::Kind::kForward, forward++});
    actions.push_back({Action::Kind::kBackward, backward++});
  }
  while (backward < micro_batches) actions.push_back({Action::Kind::kBackward, backward++});
  return actions;
}

int micro_batches_in_flight(int stage, int stages, int micro_batches) {
  return std::min(stages - stage, micro_batches);
}

}  // namespace tombolo::trainer
