#include "transport/gpu/work_queue.h"

#include <mutex>

#include "base/error.h"

namespace tombolo::transport::gpu {
namespace {

/// At the end of a process the driver shuts down before us: nothing runs on its GPUs any more.
bool is_over(CudaResult result) {
  return result == CudaResult::kSuccess || result == CudaResult::kDeinitialized ||
         result == CudaResult::kContextIsDestroyed;
}

/// A context that ended would wait for its work, or end it.
void keep_for_good(const std::shared_ptr<const Gpu>& gpu) {
  static std::mutex lock;
  static auto* const kept = new std::vector<std::shared_ptr<const Gpu>>;
  const std::lock_guard guard(lock);
  kept->push_back(gpu);
}

}  // namespace

WorkQueue::WorkQueue(std::shared_ptr<const Gpu> gpu, std::size_t most, std::string_view purpose)
    : gpu_(std::move(gpu)), ring_(most) {
  const CudaFunctions& cuda = gpu_->cuda();
  const Calls calls(*gpu_);
  CudaResult result = cuda.create_stream(&stream_, topology::kCudaStreamNonBlocking);
  std::string_view what = "a stream";
  for (UnderWay& one : ring_) {
    if (result != CudaResult::kSuccess) break;
    what = "an event";
    result = cuda.create_event(&one.event, topology::kCudaEventDisableTiming);
  }
  if (result == CudaResult::kSuccess) return;
  release();
  fail(Cause::kSystem, "GPU {}: make {} for {}: {}", gpu_->ordinal(), what, purpose, cuda.describe(result));
}

WorkQueue::~WorkQueue() {
  if (!gpu_->usable()) return;
  look();
  if (!is_idle()) {
    keep_for_good(gpu_);
    return;
  }
  const Calls calls(*gpu_);
  release();
}

void WorkQueue::release() noexcept {
  for (UnderWay& one : ring_)
    if (one.event != nullptr) gpu_->cuda().destroy_event(one.event);
  if (stream_ != nullptr) gpu_->cuda().destroy_stream(stream_);
}

void WorkQueue::note(CudaResult result, Queued& queued) noexcept {
  UnderWay& next = at(begun_);
  if (result == CudaResult::kSuccess) result = gpu_->cuda().record_event(next.event, stream_);
  if (result != CudaResult::kSuccess) {
    queued.result = result;
    queued.state.store(Queued::State::kFailed, std::memory_order_release);
    return;
  }
  queued.state.store(Queued::State::kUnderWay, std::memory_order_relaxed);
  next.queued = &queued;
  ++begun_;
}

void WorkQueue::look() noexcept {
  if (is_idle()) return;
  const Calls calls(*gpu_);
  for (; ended_ < begun_; ++ended_) {
    UnderWay& oldest = at(ended_);
    const CudaResult result = gpu_->cuda().query_event(oldest.event);
    if (result == CudaResult::kNotReady) return;
    Queued& queued = *oldest.queued;
    queued.result = result;
    queued.state.store(is_over(result) ? Queued::State::kDone : Queued::State::kFailed,
                       std::memory_order_release);
  }
}

}  // namespace tombolo::transport::gpu
