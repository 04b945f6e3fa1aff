// The kernels that carry out steps of reductions, on one GPU.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

#include "collectives/data/data_type.h"
#include "collectives/gpu/reduction_kernel.h"
#include "transport/gpu/work_queue.h"

namespace tombolo::collectives::gpu {

/// "tombolo_reduce_float"
std::string kernel_name(DataType type);

/// Of one GPU, for all communicators of the process. Threads: any.
class Kernels {
 public:
  /// Loads them, all at once, so that no launch has to load anything: that may wait for what runs on the GPU.
  /// Throws kSystem.
  explicit Kernels(std::shared_ptr<const transport::gpu::Gpu> gpu);
  /// A kernel that is still under way is left alone, with the module and the context.
  ~Kernels();
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  /// Queues one on a stream of the library's. False where as many are under way as may be. What CUDA refuses
  /// has failed. Waits for nothing.
  bool start(const ReductionArguments& given, DataType type, transport::gpu::Queued& queued) noexcept;
  /// Asks which are done, of whichever owner, and sets their states.
  void look() noexcept;

  const transport::gpu::Gpu& gpu() const noexcept { return *gpu_; }

 private:
  static constexpr std::size_t kTypes = 14;

  std::shared_ptr<const transport::gpu::Gpu> gpu_;
  std::mutex lock_;  // protects the queue
  transport::gpu::WorkQueue queue_;
  topology::CudaFunctions::Module module_ = nullptr;
  std::array<topology::CudaFunctions::Function, kTypes> functions_{};  // by type
};

}  // namespace tombolo::collectives::gpu
