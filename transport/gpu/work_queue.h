// Work on one stream of a GPU, copies or kernels, of which a bounded number is under way at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "transport/gpu/gpu.h"

namespace tombolo::transport::gpu {

/// A piece of work, as its owner sees it. It must stay where it is while it is under way.
struct Queued {
  enum class State : std::uint8_t { kNone, kUnderWay, kDone, kFailed };
  std::atomic<State> state{State::kNone};
  CudaResult result = CudaResult::kSuccess;  ///< valid once kFailed
};

/// One thread at a time. Nothing here waits, and nothing allocates once it is made.
class WorkQueue {
 public:
  /// `most`: under way at a time; `purpose`: "copies", for errors. Throws kSystem.
  WorkQueue(std::shared_ptr<const Gpu> gpu, std::size_t most, std::string_view purpose);
  /// Work that is still under way is left alone, with its events and the context.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  /// Queues by `queue(stream)`, which makes the call of CUDA and returns its result. False where as much is
  /// under way as may be: try again. What CUDA refuses has failed.
  template <typename Queue>
  bool start(const Queue& queue, Queued& queued) noexcept {
    if (is_full()) look();
    if (is_full()) return false;
    const Calls calls(*gpu_);
    note(queue(stream_), queued);
    return true;
  }
  /// Asks what is done, and sets its state.
  void look() noexcept;
  /// Whether nothing is under way, as far as it has been looked.
  bool is_idle() const noexcept { return begun_ == ended_; }

 private:
  struct UnderWay {
    CudaFunctions::Event event = nullptr;
    Queued* queued = nullptr;
  };

  bool is_full() const noexcept { return begun_ - ended_ == ring_.size(); }
  UnderWay& at(std::uint64_t number) noexcept { return ring_[number % ring_.size()]; }
  /// What was just queued, with that result.
  void note(CudaResult result, Queued& queued) noexcept;
  void release() noexcept;

  std::shared_ptr<const Gpu> gpu_;
  CudaFunctions::Stream stream_ = nullptr;
  std::vector<UnderWay> ring_;  // work ends in the order of its beginning, as a stream's does
  std::uint64_t begun_ = 0, ended_ = 0;
};

}  // namespace tombolo::transport::gpu
