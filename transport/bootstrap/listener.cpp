#include "transport/bootstrap/listener.h"

#include <algorithm>

namespace tombolo::transport::bootstrap {

AuthenticatingListener::AuthenticatingListener(std::shared_ptr<Acceptor> acceptor)
    : acceptor_(std::move(acceptor)), inbox_(std::make_shared<Inbox>()), endpoint_(acceptor_->endpoint()) {
  endpoint_.listener = acceptor_->open_listener(inbox_);
}

AuthenticatingListener::AuthenticatingListener(std::shared_ptr<Acceptor> acceptor, ReservedListener reserved)
    : acceptor_(std::move(acceptor)), inbox_(std::move(reserved.inbox)), endpoint_(acceptor_->endpoint()) {
  TOMBOLO_CHECK(inbox_ != nullptr, "no listener was reserved");
  endpoint_.listener = reserved.number;
}

AuthenticatingListener::~AuthenticatingListener() {
  acceptor_->close_listener(endpoint_.listener);
}

void AuthenticatingListener::append_wait_handles(std::vector<pollfd>& handles) const {
  handles.push_back({acceptor_->wait_handle(), POLLIN, 0});
  // A descriptor of its own is needed, because another thread's listener may have moved this one's
  // handshakes.
  if (int handle = inbox_->wait_handle(); handle >= 0) handles.push_back({handle, POLLIN, 0});
  for (const SetUp& one : set_ups_) one.connecting->append_wait_handles(handles);
}

AuthenticatingListener::Accepted AuthenticatingListener::accept_with_legs() {
  acceptor_->check_process();
  acceptor_->progress();
  for (int i = 0; i < kMostTaken; ++i) {
    auto stream = inbox_->take();
    if (!stream) break;
    begin(std::move(*stream));
  }
  return next_ready();
}

void AuthenticatingListener::begin(AuthenticatedStream stream) {
  if (acceptor_->pass_on(stream)) return;
  const Local& local = *acceptor_->local();
  const Carrier carrier = stream.hello.carrier;
  std::string peer = stream.peer;
  const Nonce connection = stream.hello.connection;
  const std::uint32_t epoch = stream.hello.epoch;
  ReservedListener legs = std::move(stream.legs);
  try {
    // The handshake refused carriers that this process cannot use.
    auto connecting = local.backend_of(carrier)->accept(acceptor_, std::move(stream));
    // A connecting end that did not get the reply joins again. Where the backend has registered no connection
    // to which the new stream could go, the peer has given up what its first stream began.
    const auto same = [&](const SetUp& one) { return one.connection == connection; };
    if (std::ranges::any_of(set_ups_, [&](const SetUp& one) { return same(one) && one.epoch > epoch; }))
      return;
    set_ups_.remove_if(same);
    set_ups_.push_back({std::move(connecting), std::move(peer), connection, epoch, std::move(legs)});
  } catch (const Error& error) {
    local.log.warning("no {} connection with {}: {}", carrier_name(carrier), peer, error.what());
  }
}

AuthenticatingListener::Accepted AuthenticatingListener::next_ready() {
  const Local& local = *acceptor_->local();
  for (auto one = set_ups_.begin(); one != set_ups_.end();) {
    Accepted accepted;
    bool over = false;
    try {
      accepted.connection = one->connecting->poll();
      over = accepted.connection != nullptr;
    } catch (const Error& error) {
      // The connecting end tries another way and says why, if it still has time.
      if (error.cause() == Cause::kTimeout)
        local.log.warning("dropped a connection from {}: {}", one->peer, error.what());
      else
        local.log.info("a connection with {} came to nothing: {}", one->peer, error.what());
      over = true;
    }
    if (over) accepted.legs = std::move(one->legs);
    one = over ? set_ups_.erase(one) : std::next(one);
    if (!accepted.connection) continue;
    const Route& route = accepted.connection->route();
    const std::uint64_t streams = accepted.connection->statistics().live_streams;
    local.log.info("accepted {} ({}): {}{}, {} -> {}{}, label {}", route.peer_host, route.peer_address,
                   route.transport, as_kind(route), route.peer_nic, route.local_nic,
                   streams == 0 ? "" : fmt::format(", {} stream(s)", streams), accepted.connection->label());
    return accepted;
  }
  return {};
}

}  // namespace tombolo::transport::bootstrap
