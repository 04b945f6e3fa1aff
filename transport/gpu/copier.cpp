#include "transport/gpu/copier.h"

#include "base/error.h"

namespace tombolo::transport::gpu {
namespace {

/// At the end of a process the driver shuts down before us: nothing runs on its GPUs any more.
bool is_over(CudaResult result) {
  return result == CudaResult::kSuccess || result == CudaResult::kDeinitialized ||
         result == CudaResult::kContextIsDestroyed;
}

/// A context that ended would wait for its copies, or end them.
void keep_for_good(const std::shared_ptr<const Gpu>& gpu) {
  static std::mutex lock;
  static auto* const kept = new std::vector<std::shared_ptr<const Gpu>>;
  const std::lock_guard guard(lock);
  kept->push_back(gpu);
}

}  // namespace

Copier::Copier(std::shared_ptr<const Gpu> gpu, std::size_t most) : gpu_(std::move(gpu)) {
  try {
    make(to_host_, most);
    make(to_device_, most);
  } catch (...) {
    release(to_host_);
    release(to_device_);
    throw;
  }
}

Copier::~Copier() {
  release(to_host_);
  release(to_device_);
}

void Copier::make(Direction& direction, std::size_t most) {
  const CudaFunctions& cuda = gpu_->cuda();
  const Calls calls(*gpu_);
  const auto check = [&](CudaResult result, const char* what) {
    if (result != CudaResult::kSuccess)
      fail(Cause::kSystem, "GPU {}: make {} for copies: {}", gpu_->ordinal(), what, cuda.describe(result));
  };
  check(cuda.create_stream(&direction.stream, topology::kCudaStreamNonBlocking), "a stream");
  direction.ring.resize(most);
  for (UnderWay& one : direction.ring)
    check(cuda.create_event(&one.event, topology::kCudaEventDisableTiming), "an event");
}

void Copier::release(Direction& direction) noexcept {
  if (!gpu_->usable()) return;
  look(direction);
  if (direction.begun != direction.ended) return keep_for_good(gpu_);
  const Calls calls(*gpu_);
  for (UnderWay& one : direction.ring)
    if (one.event != nullptr) gpu_->cuda().destroy_event(one.event);
  if (direction.stream != nullptr) gpu_->cuda().destroy_stream(direction.stream);
}

bool Copier::start(Way way, std::byte* host, std::byte* device, std::size_t bytes, Copy& copy) noexcept {
  const std::lock_guard guard(lock_);
  Direction& direction = way == Way::kToHost ? to_host_ : to_device_;
  if (direction.full()) {
    look(direction);
    if (direction.full()) return false;
  }
  const CudaFunctions& cuda = gpu_->cuda();
  const Calls calls(*gpu_);
  const auto address = reinterpret_cast<CudaFunctions::Address>(device);
  CudaResult result = way == Way::kToHost ? cuda.copy_from_device(host, address, bytes, direction.stream)
                                          : cuda.copy_to_device(address, host, bytes, direction.stream);
  UnderWay& next = direction.at(direction.begun);
  if (result == CudaResult::kSuccess) result = cuda.record_event(next.event, direction.stream);
  if (result != CudaResult::kSuccess) {
    copy.result = result;
    copy.state.store(Copy::State::kFailed, std::memory_order_release);
    return true;
  }
  copy.state.store(Copy::State::kUnderWay, std::memory_order_relaxed);
  next.copy = &copy;
  ++direction.begun;
  return true;
}

void Copier::look() noexcept {
  const std::unique_lock guard(lock_, std::try_to_lock);
  if (!guard.owns_lock()) return;  // another thread looks
  look(to_host_);
  look(to_device_);
}

void Copier::look(Direction& direction) noexcept {
  if (direction.begun == direction.ended) return;
  const Calls calls(*gpu_);
  for (; direction.ended < direction.begun; ++direction.ended) {
    UnderWay& oldest = direction.at(direction.ended);
    const CudaResult result = gpu_->cuda().query_event(oldest.event);
    if (result == CudaResult::kNotReady) return;
    Copy& copy = *oldest.copy;
    copy.result = result;
    copy.state.store(is_over(result) ? Copy::State::kDone : Copy::State::kFailed, std::memory_order_release);
  }
}

}  // namespace tombolo::transport::gpu
