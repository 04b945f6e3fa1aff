#include "transport/channel/channel_connection.h"

#include "base/error.h"
#include "base/units.h"

namespace tombolo::transport::channel {
namespace {

// After this many idle timeouts a peer that takes nothing is given up; a live one may compute for long.
constexpr int kStalledFactor = 10;

}  // namespace

ChannelConnection::ChannelConnection(ControlChannel channel, std::string_view carrier)
    : channel_(std::move(channel)),
      description_(describe(carrier, channel_.route, channel_.peer_name)),
      texts_(description_),
      meter_(channel_.meters, {channel_.route, channel_.label, channel_.peer_name}) {}

std::string ChannelConnection::stalled() {
  const TimePoint time = now();
  stalls_.quiet(*meter_, time, !outgoing_.empty(), !incoming_.empty());
  if (moved_ || outgoing_.empty()) {
    moved_ = false;
    last_moved_ = time;
    return {};
  }
  if (time - last_moved_ < kStalledFactor * channel_.idle_timeout) return {};
  return fmt::format("the peer took nothing for {}, while sending message {}",
                     format_seconds(to_seconds(time - last_moved_)), outgoing_.oldest());
}

void ChannelConnection::set_error(Cause cause, std::string_view what) noexcept {
  if (error_) return;
  error_.emplace(texts_.error(cause, {description_, ": ", what}));
  trace_failure(channel_.log, *error_);
}

void ChannelConnection::fall_asleep() const noexcept {
  sleeps_ = true;
  stalls_.quiet(*meter_, now(), !outgoing_.empty(), !incoming_.empty());
}

}  // namespace tombolo::transport::channel
