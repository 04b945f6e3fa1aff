// Parameters, moments and gradients of a stage on a device, from and to host memory.
#pragma once

#include <span>

#include "trainer/cuda/stage/stage_context.h"

namespace tombolo::trainer::cuda {

/// Copies in pieces through page-locked memory; moments that are bf16 are converted by the device.
class DeviceState {
 public:
  /// Clears the parameters, and the moments of a stage that trains.
  explicit DeviceState(StageContext& stage);
  /// As StageCompute::read_state() and write_state().
  void read(StageState state, std::size_t offset, std::span<float> to) const;
  void write(StageState state, std::size_t offset, std::span<const float> from);
  /// As StageCompute::read_gradients(), of what the compute stream sees.
  void read_gradients(std::size_t offset, std::span<float> to) const;

 private:
  void check(StageState state, std::size_t offset, std::size_t count) const;
  void read(const Values& arena, std::size_t offset, std::span<float> to) const;
  Values values(StageState state) const noexcept;
  void refresh_copy(std::size_t begin, std::size_t count);

  StageContext& stage_;
};

}  // namespace tombolo::trainer::cuda
