#include "transport/bootstrap/linked_connection.h"

#include "base/error.h"
#include "base/units.h"

namespace tombolo::transport {
namespace {

// A live peer that takes nothing may compute for long.
constexpr int kStalledFactor = 10;

}  // namespace

LinkedConnection::LinkedConnection(Linked linked, std::string_view carrier)
    : linked_(std::move(linked)),
      description_(describe(carrier, linked_.link.route, linked_.link.peer_name)),
      meter_(linked_.link.meters, {linked_.link.route, linked_.link.label, linked_.link.peer_name}) {}

std::string LinkedConnection::stalled() noexcept {
  const TimePoint time = now();
  stalls_.quiet(*meter_, time, !outgoing_.empty(), !incoming_.empty());
  if (moved_ || outgoing_.empty()) {
    moved_ = false;
    last_moved_ = time;
    return {};
  }
  if (time - last_moved_ < kStalledFactor * linked_.idle_timeout) return {};
  return fmt::format("the peer took nothing for {}, while sending message {}",
                     format_seconds(to_seconds(time - last_moved_)), outgoing_.oldest());
}

void LinkedConnection::set_error(Cause cause, std::string_view what) noexcept {
  if (error_) return;
  error_.emplace(cause, fmt::format("{}: {}", description_, what));
  linked_.log.trace("{}", error_->what());
}

void LinkedConnection::fall_asleep() const noexcept {
  sleeps_ = true;
  stalls_.quiet(*meter_, now(), !outgoing_.empty(), !incoming_.empty());
}

}  // namespace tombolo::transport
