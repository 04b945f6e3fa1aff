// One GPU as a library uses it beside the program that owns it: a context, and the calls of the CUDA driver
// made in it. This folder owns copies between GPU memory and page-locked memory; the plugin and the engine
// stage by them.
//
// A context's calls wait for each other. Where the program frees memory while a kernel of NCCL runs, or
// launches a kernel for the first time, CUDA waits in the program's context for that kernel to end; the
// kernel waits for the network, and a copy that the network needs, called in the same context, would wait for
// the program. So the plugin copies in a context of its own. The engine, for which no kernel waits, copies in
// the program's.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "topology/system/cuda_library.h"

namespace tombolo::transport::gpu {

using topology::CudaFunctions;
using topology::CudaResult;

/// Whose calls a context's calls may have to wait for.
enum class ContextOf : std::uint8_t {
  kProgram,  ///< the GPU's primary context, which CUDA's runtime uses
  kOwn,      ///< one of its own, which takes some hundred MB of the GPU's memory
};

/// Holds a context of the GPU. Threads: any.
class Gpu {
 public:
  /// Throws kSystem naming GPU and CUDA's result.
  Gpu(std::shared_ptr<const CudaFunctions> cuda, int ordinal, ContextOf owner);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  int ordinal() const noexcept { return ordinal_; }
  ContextOf owner() const noexcept { return owner_; }
  const CudaFunctions& cuda() const noexcept { return *cuda_; }
  /// False in a child that was forked after this was made: CUDA does not work there.
  bool usable() const noexcept;

 private:
  friend class Calls;
  std::shared_ptr<const CudaFunctions> cuda_;
  int ordinal_;
  ContextOf owner_;
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

}  // namespace tombolo::transport::gpu
