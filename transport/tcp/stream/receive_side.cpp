#include "transport/tcp/stream/receive_side.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tombolo::transport::tcp {

void ReceiveSide::begin_epoch() {
  ReceiveSide fresh;
  // The memory is not touched before it is needed, so that an idle connection's stays unused.
  fresh.reset_staging();
  fresh.state_ = State::kHeader;
  fresh.chunks_ = chunks_;
  *this = std::move(fresh);
}

void ReceiveSide::reset_staging() {
  begin_ = end_ = 0;
  if (capacity_ == kStaging) return;
  staging_ = std::make_unique_for_overwrite<std::byte[]>(kStaging);
  capacity_ = kStaging;
}

void ReceiveSide::move_to_front() noexcept {
  if (begin_ == 0) return;
  std::memmove(staging_.get(), staging_.get() + begin_, end_ - begin_);
  end_ -= begin_;
  scanned_ -= std::min(scanned_, begin_);
  begin_ = 0;
}

void ReceiveSide::make_room() {
  if (end_ != capacity_) return;
  auto larger = std::make_unique_for_overwrite<std::byte[]>(2 * capacity_);
  std::memcpy(larger.get(), staging_.get(), end_);
  staging_ = std::move(larger);
  capacity_ *= 2;
}

void ReceiveSide::take_ack(std::uint32_t ack) noexcept {
  // A frame that was scanned ahead comes here a second time.
  if (static_cast<std::int32_t>(ack - peer_ack_) > 0) peer_ack_ = ack;
}

}  // namespace tombolo::transport::tcp
