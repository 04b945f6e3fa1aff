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
  StageFactory make_stage;
  std::string
      note;  ///< for people: why an automatic choice fell on what it fell on; empty where none was made
};

/// `open` opens the GPU; tests give another. Throws what it throws where CUDA was asked for.
BackEnd choose_back_end(
    DeviceChoice choice, int gpu,
    const std::function<std::unique_ptr<cuda::Device>(int)>& open = cuda::open_cuda_device);

}  // namespace tombolo::trainer
