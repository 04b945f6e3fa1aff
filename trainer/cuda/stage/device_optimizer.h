// What a step does to a stage's gradients and parameters once backward is over, on the device.
#pragma once

#include <vector>

#include "trainer/cuda/stage/stage_context.h"

namespace tombolo::trainer::cuda {

/// All of it on the compute stream; the caller sees to it that reduced gradients are there.
class DeviceOptimizer {
 public:
  /// Brings the device what it needs to know of the tensors.
  explicit DeviceOptimizer(StageContext& stage);

  void clear_gradients();
  /// As StageCompute::gradient_square_sum(). Waits for the device.
  double gradient_square_sum();
  void update(const AdamWStep& step);

 private:
  StageContext& stage_;
  std::vector<Staged<StepConstants>> ring_;
  std::size_t next_ = 0;
  std::size_t largest_range_ = 0;
  Part update_;
};

}  // namespace tombolo::trainer::cuda
