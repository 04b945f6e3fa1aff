#include "trainer/cuda/stage/device_optimizer.h"

#include <algorithm>

#include "base/error.h"

namespace tombolo::trainer::cuda {

DeviceOptimizer::DeviceOptimizer(StageContext& stage) : stage_(stage) {
  for (StepConstants* step : stage.host.steps) ring_.emplace_back(*stage.device, step);
  if (!stage.sizes.training) return;
  std::size_t index = 0;
  for (const Slice& slice : stage.layout.slices()) {
    stage.host.ranges[index++] = {slice.offset, slice.elements,
                                  tensor_info(slice.tensor).matrix ? 1.0F : 0.0F};
    largest_range_ = std::max(largest_range_, slice.elements);
  }
  stage.device->copy(Stream::kCompute, stage.buffers.ranges, stage.host.ranges, index * sizeof(Range));
  clear_gradients();
}

void DeviceOptimizer::clear_gradients() {
  if (!stage_.options.training) return;
  stage_.pass_times.begin(Pass::kClearGradients);
  stage_.device->clear(Stream::kCompute, stage_.buffers.gradients, stage_.sizes.arena * sizeof(float));
  stage_.pass_times.end();
  stage_.settle_if_timed();
}

double DeviceOptimizer::gradient_square_sum() {
  if (!stage_.options.training) return 0;
  // A copy of the embedding is the last tensor; padding between tensors is 0.
  const Slice& last = stage_.layout.slices().back();
  const std::size_t count = stage_.layout.is_copy(last) ? last.offset : stage_.sizes.arena;
  stage_.pass_times.begin(Pass::kGradientNorm);
  stage_.device->clear(Stream::kCompute, stage_.buffers.squares, sizeof(double));
  stage_.device->run(Stream::kCompute, Sum{stage_.buffers.squares, stage_.buffers.gradients,
                                           stage_.buffers.scratch.sum, count, true});
  stage_.pass_times.end();
  return stage_.read_scalar(stage_.buffers.squares);
}

void DeviceOptimizer::update(const AdamWStep& step) {
  if (!stage_.options.training) fail(Cause::kInternal, "a stage that does not train has no optimizer");
  Staged<StepConstants>& staged = ring_[next_++ % ring_.size()];
  staged.copied.synchronize();
  *staged.at = {step, step.number};
  stage_.pass_times.begin(Pass::kUpdate);
  stage_.device->copy(Stream::kCompute, stage_.buffers.step, staged.at, sizeof(StepConstants));
  staged.copied.record(Stream::kCompute);
  stage_.run_part(update_, [&] {
    AdamWUpdate operation{};
    operation.parameters = stage_.buffers.master;
    operation.copy = stage_.buffers.copy;
    operation.first_moment = stage_.buffers.first_moment;
    operation.second_moment = stage_.buffers.second_moment;
    operation.gradients = stage_.buffers.gradients;
    operation.ranges = stage_.buffers.ranges;
    operation.range_count = stage_.layout.slices().size();
    operation.largest = largest_range_;
    operation.size = stage_.sizes.arena;
    operation.step = &stage_.buffers.step->step;
    operation.step_number = &stage_.buffers.step->number;
    stage_.device->run(Stream::kCompute, operation);
  });
  stage_.pass_times.end();
  stage_.settle_if_timed();
}

}  // namespace tombolo::trainer::cuda
