// What the connections of a process that stage GPU memory share: the copiers of each GPU, and the pinned
// memory.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"
#include "net_plugin/gpu/pinned_pool.h"
#include "transport/gpu/copier.h"

namespace tombolo::net_plugin::gpu {

/// Threads: any.
class Staging {
 public:
  /// `cuda`: null in a process without a GPU, which then has no memory to stage, but may have a peer that
  /// does. `buffer_bytes`: of pinned memory; `copies`: under way for each GPU, direction and kind of memory;
  /// `copy_time`: what closing gives to the copies under way.
  Staging(std::shared_ptr<const CudaFunctions> cuda, std::size_t buffer_bytes, std::size_t copies,
          Duration copy_time = std::chrono::seconds(10))
      : cuda_(std::move(cuda)), copies_(copies), copy_time_(copy_time), pool_(buffer_bytes) {}

  Duration copy_time() const noexcept { return copy_time_; }

  PinnedPool& pool() noexcept { return pool_; }

  /// The copier of the GPU in whose memory the address lies; made at the first call for a GPU. It copies in
  /// the plugin's own context where the memory belongs to none, as NCCL's does where NCCL_CUMEM_ENABLE is not
  /// 0; memory of cudaMalloc is reached only by waiting for the calls of the program's context, whichever
  /// context asks. `note`: what a person should know of that, said once for each GPU. Throws kInvalidUsage
  /// for an address that is not a GPU's, kSystem where CUDA refuses.
  Copier& copier_of(const std::byte* address, std::string* note = nullptr);
  /// A GPU through which memory can be locked: that of the calling thread, else one that is in use already,
  /// else the first. Null where there is none. Throws kSystem.
  std::shared_ptr<const Gpu> some_gpu();

 private:
  /// A context, and the copier in it, null until it is needed.
  struct InContext {
    std::shared_ptr<const Gpu> gpu;
    std::unique_ptr<Copier> copier;
  };
  struct One {
    std::optional<InContext> plugin, program;
    std::string no_context;  ///< why the plugin has none of its own; empty: it has, or was not asked
    bool told = false;       ///< of copies in the program's context
  };
  /// The plugin's own context of that GPU, else the program's.
  InContext& best_of(int ordinal);
  InContext& program_of(int ordinal);
  bool belongs_to_no_context(const std::byte* address) const;

  std::shared_ptr<const CudaFunctions> cuda_;
  std::size_t copies_;
  Duration copy_time_;
  std::mutex lock_;
  std::map<int, One> gpus_;
  PinnedPool pool_;
};

}  // namespace tombolo::net_plugin::gpu
