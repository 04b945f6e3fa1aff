// One GPU as the plugin uses it: the primary context, in which the program's own memory lies, and the calls
// of the CUDA driver made in it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string>

#include "topology/system/cuda_library.h"

namespace tombolo::net_plugin::gpu {

using topology::CudaFunctions;
using topology::CudaResult;

/// Holds the GPU's primary context. Threads: any.
class Gpu {
 public:
  /// Throws kSystem naming GPU and CUDA's result.
  Gpu(std::shared_ptr<const CudaFunctions> cuda, int ordinal);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  int ordinal() const noexcept { return ordinal_; }
  const CudaFunctions& cuda() const noexcept { return *cuda_; }
  /// False in a child that was forked after this was made: CUDA does not work there.
  bool usable() const noexcept;

 private:
  friend class Calls;
  std::shared_ptr<const CudaFunctions> cuda_;
  int ordinal_;
  CudaFunctions::Context context_ = nullptr;
  pid_t made_by_;
};

/// While one lives, the calling thread may make calls of the driver for that GPU. It puts the GPU's context
/// on the thread, and relaxes the thread's capture mode, because another thread may be capturing a CUDA
/// graph, which calls that have nothing to do with it must not break. Both are as before afterwards.
class Calls {
 public:
  explicit Calls(const Gpu& gpu) noexcept;
  ~Calls();
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

 private:
  const CudaFunctions& cuda_;
  topology::CudaCaptureMode mode_ = topology::CudaCaptureMode::kRelaxed;
  bool pushed_;
};

}  // namespace tombolo::net_plugin::gpu
