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
  /// Which GPU: equal on two ranks that share one. Empty on the CPU.
  std::string gpu = {};
  /// What sums gradients over GPUs, "NCCL 2.28.9 (libnccl.so.2)"; or why nothing does.
  std::string nccl = {}, nccl_problem = {};
};

/// `open` opens the GPU; tests give another. Throws what it throws where CUDA was asked for. `sums`: NCCL may
/// be wanted, and is loaded to see whether it can be.
BackEnd choose_back_end(
    DeviceChoice choice, int gpu, bool sums = false,
    const std::function<std::unique_ptr<cuda::Device>(int)>& open = cuda::open_cuda_device);

}  // namespace tombolo::trainer
