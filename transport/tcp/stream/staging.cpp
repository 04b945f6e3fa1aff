#include "transport/tcp/stream/staging.h"

#include <cstring>
#include <utility>

namespace tombolo::transport::tcp {

void Staging::reset() {
  scanned_ -= std::min(scanned_, begin_);
  begin_ = end_ = 0;
  if (capacity_ == kUsualBytes) return;
  memory_ = std::make_unique_for_overwrite<std::byte[]>(kUsualBytes);
  capacity_ = kUsualBytes;
}

void Staging::move_to_front() noexcept {
  if (begin_ == 0) return;
  std::memmove(memory_.get(), memory_.get() + begin_, size());
  end_ -= begin_;
  scanned_ -= std::min(scanned_, begin_);
  begin_ = 0;
}

void Staging::make_room() {
  move_to_front();
  if (end_ != capacity_) return;
  auto larger = std::make_unique_for_overwrite<std::byte[]>(2 * capacity_);
  std::memcpy(larger.get(), memory_.get(), end_);
  memory_ = std::move(larger);
  capacity_ *= 2;
}

std::optional<std::span<const std::byte, kHeaderBytes>> Staging::to_scan() const noexcept {
  if (scanned_ + kHeaderBytes > end_) return std::nullopt;
  return std::span<const std::byte, kHeaderBytes>(memory_.get() + scanned_, kHeaderBytes);
}

}  // namespace tombolo::transport::tcp
