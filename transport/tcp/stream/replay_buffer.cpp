#include "transport/tcp/stream/replay_buffer.h"

#include <sys/mman.h>

namespace tombolo::transport::tcp {

ReplayBuffer::~ReplayBuffer() {
  if (memory_ != nullptr) munmap(memory_, capacity_);
}

std::byte* ReplayBuffer::take(std::size_t bytes) noexcept {
  if (used() + bytes > capacity_) return nullptr;
  if (memory_ == nullptr) {
    void* mapped =
        mmap(nullptr, capacity_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    memory_ = static_cast<std::byte*>(mapped);
  }
  if (taken_ == given_back_) start_ = taken_;
  std::size_t at = static_cast<std::size_t>((taken_ - start_) % capacity_);
  std::size_t skipped = at + bytes > capacity_ ? capacity_ - at : 0;
  if (used() + skipped + bytes > capacity_) return nullptr;
  taken_ += skipped + bytes;
  return memory_ + (skipped != 0 ? 0 : at);
}

}  // namespace tombolo::transport::tcp
