#include "transport/routing/failover_memory.h"

#include "base/error.h"

namespace tombolo::transport {

std::unique_ptr<Memory> FailoverMemories::add(std::span<std::byte> buffer, MemoryKind kind) {
  const std::lock_guard guard(lock_);
  if (kind != MemoryKind::kHost && leg_ == nullptr)
    fail(Cause::kUnsupported, "register {} bytes of GPU memory: the connection has no way now",
         buffer.size());
  auto on_leg = leg_ != nullptr ? leg_->register_memory(buffer, kind) : nullptr;
  gpu_ |= kind != MemoryKind::kHost;
  return keep(std::make_unique<FailoverMemory>(*this, buffer, std::move(on_leg)));
}

std::unique_ptr<Memory> FailoverMemories::add_dma_buf(std::span<std::byte> range, int file,
                                                      std::uint64_t offset) {
  const std::lock_guard guard(lock_);
  if (leg_ == nullptr)
    fail(Cause::kUnsupported, "register {} bytes of a DMA-BUF: the connection has no way now", range.size());
  auto on_leg = leg_->register_dma_buf(range, file, offset);
  gpu_ = true;
  return keep(std::make_unique<FailoverMemory>(*this, range, std::move(on_leg)));
}

std::unique_ptr<Memory> FailoverMemories::keep(std::unique_ptr<FailoverMemory> memory) {
  all_.insert(memory.get());
  return memory;
}

void FailoverMemories::remove(FailoverMemory& memory) noexcept {
  const std::lock_guard guard(lock_);
  all_.erase(&memory);
  memory.leave_leg();
}

bool FailoverMemories::any_gpu_memory() {
  const std::lock_guard guard(lock_);
  return gpu_;
}

void FailoverMemories::use(Connection* leg) noexcept {
  const std::lock_guard guard(lock_);
  if (leg == nullptr)
    for (FailoverMemory* one : all_) one->leave_leg();
  leg_ = leg;
}

}  // namespace tombolo::transport
