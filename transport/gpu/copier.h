// Copies between a GPU's memory and pinned memory of the host, beside the work of the program that owns the
// GPU.
//
// A copy engine does its copies in the order in which they came, whatever the priority of a stream. What
// keeps it free for the program is that only a few of ours are queued at a time: the number of copies under
// way in each direction is bounded, and that is the whole budget.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "transport/gpu/gpu.h"
#include "transport/gpu/work_queue.h"

namespace tombolo::transport::gpu {

/// A copy, as its owner sees it. It must stay where it is while it is under way.
using Copy = Queued;

/// Of one GPU, for all connections of the process. Threads: any. Nothing here waits, and nothing allocates
/// once it is made.
class Copier {
 public:
  enum class Way : std::uint8_t { kToHost, kToDevice };

  /// `most`: copies under way in each direction. Throws kSystem. Copies that are still under way at its end
  /// are left alone, with their events and the context.
  Copier(const std::shared_ptr<const Gpu>& gpu, std::size_t most);

  /// Queues a copy of at least one byte. False where as many are under way as may be: try again. A copy that
  /// CUDA refuses has failed.
  bool start(Way way, std::byte* host, std::byte* device, std::size_t bytes, Copy& copy) noexcept;
  /// Asks which copies, of whichever owner, are done, and sets their states.
  void look() noexcept;

  const Gpu& gpu() const noexcept { return *gpu_; }
  std::string describe(CudaResult result) const { return gpu_->cuda().describe(result); }

 private:
  std::shared_ptr<const Gpu> gpu_;
  std::mutex lock_;  // protects all below
  WorkQueue to_host_, to_device_;
};

}  // namespace tombolo::transport::gpu
