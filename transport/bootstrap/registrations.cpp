#include "transport/bootstrap/registrations.h"

#include <algorithm>

namespace tombolo::transport::bootstrap {

std::uint32_t Registrations::open_listener(std::shared_ptr<const LocalEnd> end,
                                           const std::shared_ptr<Inbox>& inbox) {
  return add_listener({std::move(end), inbox});
}

ReservedListener Registrations::reserve_for_legs(std::shared_ptr<const LocalEnd> end) {
  auto inbox = std::make_shared<Inbox>();
  const std::uint32_t number = add_listener({std::move(end), inbox, {}, true});
  return {number, std::move(inbox)};
}

std::uint32_t Registrations::add_listener(Entry entry) {
  const std::lock_guard lock(mutex_);
  std::erase_if(listeners_, [](const auto& one) { return one.second.inbox.expired(); });
  listeners_[next_listener_] = std::move(entry);
  return next_listener_++;
}

bool Registrations::close_listener(std::uint32_t number, TimePoint until) {
  const std::lock_guard lock(mutex_);
  listeners_.erase(number);
  const bool others =
      std::ranges::any_of(listeners_, [](const auto& entry) { return !entry.second.inbox.expired(); });
  if (others) asked_until_ = std::max(asked_until_, until);
  return others;
}

bool Registrations::open_connection(const Nonce& connection, Side side, std::shared_ptr<const LocalEnd> end,
                                    const std::shared_ptr<Inbox>& inbox) {
  const std::lock_guard lock(mutex_);
  const auto [at, fresh] = connections_.try_emplace({connection, side});
  Entry& entry = at->second;
  if (!fresh && (entry.closed_until != TimePoint{} || !entry.inbox.expired())) return false;
  entry = {std::move(end), inbox};
  return true;
}

void Registrations::close_connection(const Nonce& connection, Side side,
                                     std::shared_ptr<const LocalEnd> remembered, TimePoint now,
                                     TimePoint until) {
  const std::lock_guard lock(mutex_);
  const auto found = connections_.find({connection, side});
  if (found == connections_.end() || found->second.closed_until != TimePoint{}) return;
  closed_.push_back(found->first);  // this first, which may throw: else nobody would ever forget it
  found->second = {std::move(remembered), {}, until};
  asked_until_ = std::max(asked_until_, until);
  forget_old(now);
}

/// Times differ between routers, so that an old one with a long time keeps those behind it a little longer.
void Registrations::forget_old(TimePoint now) {
  while (!closed_.empty()) {
    const auto oldest = connections_.find(closed_.front());
    if (closed_.size() <= kMostClosed && oldest->second.closed_until > now) return;
    connections_.erase(oldest);
    closed_.pop_front();
  }
}

void Registrations::leave(const LocalEnd& end) {
  const std::lock_guard lock(mutex_);
  std::erase_if(listeners_, [&](const auto& entry) { return entry.second.end.get() == &end; });
}

Registration Registrations::connection_at(const Key& key) const {
  const auto found = connections_.find(key);
  if (found == connections_.end()) return {};
  return {found->second.end, found->second.inbox.lock()};
}

Registration Registrations::find_connection(const Nonce& connection, Side side) {
  const std::lock_guard lock(mutex_);
  return connection_at({connection, side});
}

Registration Registrations::find(const Destination& to) {
  const std::lock_guard lock(mutex_);
  // The connecting end opens streams; the accepting end asks.
  const auto side = to.purpose == Purpose::kAsk ? Side::kConnecting : Side::kAccepting;
  if (Registration known = connection_at({to.connection, side}); known.end) return known;
  // Only the first stream of a connection comes to its listener: the backend opens the connection then.
  if (to.purpose != Purpose::kJoin) return {};
  const auto found = listeners_.find(to.listener);
  if (found == listeners_.end()) return {};
  return {found->second.end, found->second.inbox.lock(), found->second.for_legs};
}

bool Registrations::may_be_asked(TimePoint now) {
  const std::lock_guard lock(mutex_);
  forget_old(now);
  return now < asked_until_;
}

}  // namespace tombolo::transport::bootstrap
