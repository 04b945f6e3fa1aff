#include "planner/schedule.h"

#include <algorithm>

#include "base/error.h"

namespace tombolo::planner {

std::vector<Operation> one_forward_one_backward(int stage, int stages, int micro_batches) {
  if (stage < 0 || stage >= stages || micro_batches < 1)
    fail(Cause::kInvalidUsage, "schedule: stage {} of {} with {} micro-batches", stage, stages,
         micro_batches);
  const int warm_up = std::min(stages - 1 - stage, micro_batches);
  std::vector<Operation> order;
  order.reserve(2 * static_cast<std::size_t>(micro_batches));
  for (int i = 0; i < warm_up; ++i) order.push_back({false, i});
  for (int i = warm_up; i < micro_batches; ++i) {
    order.push_back({false, i});
    order.push_back({true, i - warm_up});
  }
  for (int i = micro_batches - warm_up; i < micro_batches; ++i) order.push_back({true, i});
  return order;
}

int micro_batches_in_flight(int stage, int stages, int micro_batches) noexcept {
  return std::min(stages - stage, micro_batches);
}

}  // namespace tombolo::planner
