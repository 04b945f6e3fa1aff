#include "transport/bootstrap/acceptor.h"

#include <utility>

#include "base/error.h"
#include "transport/sockets/socket.h"

namespace tombolo::transport::bootstrap {
namespace {

std::shared_ptr<const LocalEnd> answering_for(const LocalEnd& end) {
  auto local = std::make_shared<Local>(*end.local);
  local->backends.clear();
  local->meters.reset();
  local->log = Log();
  return std::make_shared<LocalEnd>(LocalEnd{std::move(local), end.endpoint, true});
}

}  // namespace

Route route_of(const Acceptor& acceptor, const AuthenticatedStream& stream) {
  const Hello& hello = stream.hello;
  Route route;
  route.transport = carrier_name(hello.carrier);
  route.kind = hello.kind;
  route.emulated = hello.emulated;
  route.local_nic = acceptor.endpoint().offers[stream.offer].nic;
  route.peer_nic = hello.nic;
  route.peer_host = hello.host;
  route.peer_address = sockets::peer_text(stream.socket.get());
  route.reason = "chosen by the connecting end";
  route.resumable = hello.resumable;
  if (stream.tls) {
    route.transport += "+tls";
    route.reason += fmt::format("; {}, {}", acceptor.local()->tls->description(), stream.tls->cipher());
  }
  return route;
}

Acceptor::Acceptor(std::shared_ptr<ProcessHelpers> helpers, std::shared_ptr<const Local> local, Endpoint self)
    : helpers_(std::move(helpers)) {
  self.process = helpers_->process();
  end_ = helpers_->half_open_streams().open(std::move(local), std::move(self));
  remembered_ = answering_for(*end_);
}

Acceptor::~Acceptor() {
  if (is_copy()) return;
  helpers_->registrations().leave(*end_);
  helpers_->half_open_streams().leave(*end_);
}

void Acceptor::check_process() const {
  if (is_copy()) {
    fail(Cause::kInvalidUsage,
         "host {}: this process is a fork of the one that made the router, and cannot use it; make a router "
         "after fork()",
         local()->host);
  }
}

std::uint16_t Acceptor::port_of(const std::string& address) const noexcept {
  for (const Offer& offer : endpoint().offers)
    if (offer.address == address) return offer.port;
  return 0;
}

std::uint32_t Acceptor::open_listener(const std::shared_ptr<Inbox>& inbox) {
  return helpers_->registrations().open_listener(end_, inbox);
}

void Acceptor::close_listener(std::uint32_t number) noexcept {
  if (is_copy()) return;
  const TimePoint until = helpers_->clock().now() + local()->idle_timeout;
  if (helpers_->registrations().close_listener(number, until)) background_progress().wake();
}

bool Acceptor::open_connection(const Nonce& connection, Side side, const std::shared_ptr<Inbox>& inbox) {
  return helpers_->registrations().open_connection(connection, side, end_, inbox);
}

bool Acceptor::pass_on(AuthenticatedStream& stream) {
  const Registration found =
      helpers_->registrations().find_connection(stream.hello.connection, Side::kAccepting);
  if (!found.end) return false;
  if (found.inbox && found.end == end_) {
    found.inbox->put(std::move(stream));
  } else {
    local()->log.info("dropped a stream from {}: the connection that it joins is closed", stream.peer);
    const AuthenticatedStream dropped = std::move(stream);
  }
  return true;
}

void Acceptor::close_connection(const Nonce& connection, Side side) noexcept {
  if (is_copy()) return;
  const TimePoint now = helpers_->clock().now();
  try {
    helpers_->registrations().close_connection(connection, side, remembered_, now,
                                               now + local()->idle_timeout);
  } catch (const std::exception&) {  // without memory it stays as it is, until the connection is closed again
  }
}

}  // namespace tombolo::transport::bootstrap
