// Copies between a GPU's memory and pinned memory of the host, beside the work of the program that owns the
// GPU.
//
// A copy engine does its copies in the order in which they came, whatever the priority of a stream. What
// keeps it free for the program is that only a few of ours are queued at a time: the number of copies under
// way in each direction is bounded, and that is the whole budget.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transport/gpu/gpu.h"

namespace tombolo::transport::gpu {

/// A copy, as its owner sees it. It must stay where it is while it is under way.
struct Copy {
  enum class State : std::uint8_t { kNone, kUnderWay, kDone, kFailed };
  std::atomic<State> state{State::kNone};
  CudaResult result = CudaResult::kSuccess;  ///< valid once kFailed
};

/// Of one GPU, for all connections of the process. Threads: any. Nothing here waits, and nothing allocates
/// once it is made.
class Copier {
 public:
  enum class Way : std::uint8_t { kToHost, kToDevice };

  /// `most`: copies under way in each direction. Throws kSystem.
  Copier(std::shared_ptr<const Gpu> gpu, std::size_t most);
  /// Copies that are still under way are left alone, with their events and the context.
  ~Copier();
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;

  /// Queues a copy of at least one byte. False where as many are under way as may be: try again. A copy that
  /// CUDA refuses has failed.
  bool start(Way way, std::byte* host, std::byte* device, std::size_t bytes, Copy& copy) noexcept;
  /// Asks which copies, of whichever owner, are done, and sets their states.
  void look() noexcept;

  const Gpu& gpu() const noexcept { return *gpu_; }
  std::string describe(CudaResult result) const { return gpu_->cuda().describe(result); }

 private:
  struct UnderWay {
    CudaFunctions::Event event = nullptr;
    Copy* copy = nullptr;
  };
  /// The copies of one direction: a ring in which they end in the order of their beginning, as a stream does.
  struct Direction {
    CudaFunctions::Stream stream = nullptr;
    std::vector<UnderWay> ring;
    std::uint64_t begun = 0, ended = 0;
    bool full() const noexcept { return begun - ended == ring.size(); }
    UnderWay& at(std::uint64_t number) noexcept { return ring[number % ring.size()]; }
  };

  void make(Direction& direction, std::size_t most);
  void release(Direction& direction) noexcept;
  void look(Direction& direction) noexcept;

  std::shared_ptr<const Gpu> gpu_;
  std::mutex lock_;  // protects all below
  Direction to_host_, to_device_;
};

}  // namespace tombolo::transport::gpu
