// Which device trains: what --device says, and what there is.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "trainer/cuda/device.h"
#include "trainer/model/stage_compute.h"

namespace tombolo::trainer {

enum class DeviceChoice {
  kCpu,
  kCuda,
  kAuto,  ///< CUDA where it works, else the CPU
};
/// "cpu", "cuda", "auto".
std::string_view device_choice_name(DeviceChoice choice) noexcept;
std::optional<DeviceChoice> device_choice_from_name(std::string_view name) noexcept;

struct BackEnd {
  DeviceChoice device = DeviceChoice::kCpu;  ///< kCpu or kCuda
  std::string name;                          ///< "cpu", or the GPU's
  std::string description;                   ///< of the GPU, in a line; empty of the CPU
  StageFactory make_stage;
  /// Says for people why an automatic choice was made as it was; empty where none was made.
  std::string note;
  /// The most FLOP/s in products of a precision: of the GPU by its data sheet, of one core as measured now
  /// (some 10 ms); 0 = unknown.
  std::function<double(compute::Precision)> peak;
};

/// `open` opens the GPU; tests give another. Throws what it throws where CUDA was asked for.
BackEnd choose_back_end(
    DeviceChoice choice, int gpu,
    const std::function<std::unique_ptr<cuda::Device>(int)>& open = cuda::open_cuda_device);

}  // namespace tombolo::trainer
