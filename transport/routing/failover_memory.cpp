#include "transport/routing/failover_memory.h"

#include <fcntl.h>

#include <cerrno>

#include "base/error.h"
#include "transport/kernel.h"

namespace tombolo::transport {

std::unique_ptr<Memory> FailoverMemories::add(std::span<std::byte> buffer, MemoryKind kind) {
  const std::lock_guard guard(lock_);
  const bool is_gpu = kind != MemoryKind::kHost;
  if (is_gpu && leg_ == nullptr && staging_ == nullptr)
    fail(Cause::kUnsupported, "register {} bytes of GPU memory: the connection has no way now",
         buffer.size());
  auto on_leg = leg_ != nullptr ? leg_->register_memory(buffer, kind) : nullptr;
  if (is_gpu) prepare(buffer);
  return keep(std::make_unique<FailoverMemory>(*this, buffer, kind, Descriptor(), 0, std::move(on_leg)));
}

std::unique_ptr<Memory> FailoverMemories::add_dma_buf(std::span<std::byte> range, int file,
                                                      std::uint64_t offset) {
  const std::lock_guard guard(lock_);
  if (leg_ == nullptr && staging_ == nullptr)
    fail(Cause::kUnsupported, "register {} bytes of a DMA-BUF: the connection has no way now", range.size());
  Descriptor kept;
  if (staging_ != nullptr) {
    kept = Descriptor(kernel().fcntl(file, F_DUPFD_CLOEXEC, 0));
    if (!kept) fail_errno(errno, fmt::format("keep the DMA-BUF of {} bytes for another way", range.size()));
  }
  auto on_leg = leg_ != nullptr ? leg_->register_dma_buf(range, file, offset) : nullptr;
  prepare(range);
  return keep(std::make_unique<FailoverMemory>(*this, range, MemoryKind::kCuda, std::move(kept), offset,
                                               std::move(on_leg)));
}

void FailoverMemories::prepare(std::span<std::byte> range) {
  gpu_ = true;
  std::string why =
      staging_ == nullptr ? std::string("GPU memory is registered with it") : staging_->prepare(range);
  if (stays_.empty()) stays_ = std::move(why);
}

std::unique_ptr<Memory> FailoverMemories::keep(std::unique_ptr<FailoverMemory> memory) {
  all_.insert(memory.get());
  return memory;
}

void FailoverMemories::remove(FailoverMemory& memory) noexcept {
  if (generation_ != fork_generation()) return;
  const std::lock_guard guard(lock_);
  all_.erase(&memory);
  memory.leave_leg();
  memory.retired();
}

bool FailoverMemories::any_gpu_memory() {
  const std::lock_guard guard(lock_);
  return gpu_;
}

std::string FailoverMemories::why_gpu_memory_stays() {
  const std::lock_guard guard(lock_);
  return stays_;
}

void FailoverMemories::use(Connection* leg) noexcept {
  const std::lock_guard guard(lock_);
  if (leg == nullptr)
    for (FailoverMemory* one : all_) one->leave_leg();
  leg_ = leg;
}

void FailoverMemories::retire_leg() noexcept {
  const std::lock_guard guard(lock_);
  for (FailoverMemory* one : all_) one->retire_leg();
  leg_ = nullptr;
}

void FailoverMemories::retired() noexcept {
  const std::lock_guard guard(lock_);
  for (FailoverMemory* one : all_) one->retired();
}

void FailoverMemories::take_back(Connection* leg) noexcept {
  const std::lock_guard guard(lock_);
  for (FailoverMemory* one : all_) one->take_back();
  leg_ = leg;
}

}  // namespace tombolo::transport
