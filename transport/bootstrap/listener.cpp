#include "transport/bootstrap/listener.h"

#include <sys/socket.h>

#include "base/units.h"
#include "transport/bootstrap/socket.h"

namespace tombolo::transport::tcp {

TcpListener::TcpListener(std::shared_ptr<const Local> local, std::shared_ptr<Acceptor> acceptor)
    : local_(std::move(local)),
      acceptor_(std::move(acceptor)),
      inbox_(std::make_shared<Inbox>()),
      endpoint_(acceptor_->endpoint()) {
  endpoint_.listener = acceptor_->open_listener(inbox_);
}

void TcpListener::append_wait_handles(std::vector<pollfd>& handles) const {
  handles.push_back({acceptor_->wait_handle(), POLLIN, 0});
  // Another thread's listener may have moved this one's handshakes.
  if (int handle = inbox_->wait_handle(); handle >= 0) handles.push_back({handle, POLLIN, 0});
  for (const auto& one : establishing_) one.connecting->append_wait_handles(handles);
}

std::unique_ptr<Connection> TcpListener::accept() {
  if (complete_.empty()) acceptor_->progress();
  while (auto stream = inbox_->take()) {
    if (auto backend = local_->backend_of(stream->hello.carrier)) {
      establish(std::move(*stream), backend);
    } else {
      gather(std::move(*stream));
    }
  }
  expire();
  if (auto connection = established()) return connection;
  if (complete_.empty()) return nullptr;
  Group group = std::move(complete_.front());
  complete_.pop_front();
  return finish(std::move(group));
}

void TcpListener::gather(Trusted stream) {
  const Hello& hello = stream.hello;
  auto [at, fresh] = groups_.try_emplace(hello.connection);
  Group& group = at->second;
  if (fresh) {
    group.streams.resize(hello.streams);
    group.missing = hello.streams;
    group.until = local_->clock->now() + patience_of(hello);
  }
  if (group.streams.size() != hello.streams || group.streams[hello.stream].socket) {
    local_->log.warning(
        "dropped a stream from {}: stream {} of {} does not fit the connection it claims to belong to",
        stream.peer, hello.stream, hello.streams);
    return;
  }
  group.streams[hello.stream] = std::move(stream);
  if (--group.missing == 0) {
    complete_.push_back(std::move(group));
    groups_.erase(at);
  }
}

void TcpListener::establish(Trusted stream, const std::shared_ptr<Backend>& backend) {
  Route route = route_of(stream);
  Link link{std::move(stream.socket),
            false,
            acceptor_->endpoint().offers[stream.offer],
            {},
            {},
            stream.hello.label,
            {},
            Deadline::after(patience_of(stream.hello), *local_->clock),
            local_->meters,
            {}};
  link.route = std::move(route);
  link.route.transport = carrier_name(stream.hello.carrier);
  try {
    establishing_.push_back({backend->establish(std::move(link)), stream.peer});
  } catch (const Error& error) {
    local_->log.warning("no {} connection with {}: {}", carrier_name(stream.hello.carrier), stream.peer,
                        error.what());
  }
}

std::unique_ptr<Connection> TcpListener::established() {
  for (auto one = establishing_.begin(); one != establishing_.end();) {
    std::unique_ptr<Connection> connection;
    bool over = false;
    try {
      connection = one->connecting->poll();
      over = connection != nullptr;
    } catch (const Error& error) {
      // The connecting end turns to another way, and says why.
      local_->log.info("a connection with {} came to nothing: {}", one->peer, error.what());
      over = true;
    }
    one = over ? establishing_.erase(one) : std::next(one);
    if (!connection) continue;
    const Route& route = connection->route();
    local_->log.info("accepted {} ({}): {}, {} -> {}, label {}", route.peer_host, route.peer_address,
                     route.transport, route.peer_nic, route.local_nic, connection->label());
    return connection;
  }
  return nullptr;
}

void TcpListener::expire() {
  if (groups_.empty()) return;
  TimePoint now = local_->clock->now();
  std::erase_if(groups_, [&](const auto& entry) {
    const Group& group = entry.second;
    if (group.until > now) return false;
    for (const Trusted& stream : group.streams) {
      if (!stream.socket) continue;
      local_->log.warning("dropped a connection from {}: {} of its {} streams did not arrive within {}",
                          stream.hello.host, group.missing, group.streams.size(),
                          format_seconds(to_seconds(patience_of(stream.hello))));
      break;
    }
    return true;
  });
}

Route TcpListener::route_of(const Trusted& stream) const {
  const Hello& hello = stream.hello;
  Route route;
  route.transport = stream.tls ? "tcp+tls" : "tcp";
  route.kind = hello.kind;
  route.emulated = hello.emulated;
  route.local_nic = acceptor_->endpoint().offers[stream.offer].nic;
  route.peer_nic = hello.nic;
  route.peer_host = hello.host;
  route.peer_address = peer_text(stream.socket.get());
  route.reason = "chosen by the connecting end";
  if (stream.tls) route.reason += fmt::format("; {}, {}", local_->tls->description(), stream.tls->cipher());
  return route;
}

std::unique_ptr<Connection> TcpListener::finish(Group group) {
  const Trusted& first = group.streams[0];
  Established made;
  made.local = local_;
  made.acceptor = acceptor_;
  made.hello = first.hello;
  made.route = route_of(first);
  local_->log.info("accepted {} ({}): {}{}, {} -> {}, {} stream(s), label {}", made.route.peer_host,
                   made.route.peer_address, made.route.transport, as_kind(made.route), made.route.peer_nic,
                   made.route.local_nic, group.streams.size(), made.hello.label);
  std::map<std::string, double> rates;  // by NIC
  for (const Trusted& stream : group.streams) {
    const Offer& offer = acceptor_->endpoint().offers[stream.offer];
    rates[offer.nic] = static_cast<double>(offer.rate_bits_per_second) / 8;
  }
  for (const auto& [nic, rate] : rates) made.bytes_per_second += rate;
  for (Trusted& stream : group.streams)
    made.streams.push_back(accepted_stream(*local_, *acceptor_, std::move(stream)));
  return std::make_unique<TcpConnection>(std::move(made));
}

}  // namespace tombolo::transport::tcp
