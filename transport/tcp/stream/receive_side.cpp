#include "transport/tcp/stream/receive_side.h"

#include <utility>

namespace tombolo::transport::tcp {

void ReceiveSide::begin_epoch() {
  ReceiveSide fresh;
  fresh.staging_.reset();
  fresh.state_ = State::kHeader;
  fresh.chunks_ = chunks_;
  *this = std::move(fresh);
}

void ReceiveSide::take_ack(std::uint32_t ack) noexcept {
  // A frame that was scanned ahead comes here a second time.
  if (static_cast<std::int32_t>(ack - peer_ack_) > 0) peer_ack_ = ack;
}

}  // namespace tombolo::transport::tcp
