#include "transport/tcp/accepting.h"

#include <map>

#include "base/error.h"
#include "base/units.h"

namespace tombolo::transport::tcp {

void StreamGroup::add(bootstrap::AuthenticatedStream stream, const Log& log) {
  const bootstrap::Hello& hello = stream.hello;
  if (hello.streams != streams_.size() || streams_[hello.stream].socket) {
    log.warning(
        "dropped a stream from {}: stream {} of {} does not fit the connection it claims to belong to",
        stream.peer, hello.stream, hello.streams);
    return;
  }
  const std::size_t number = hello.stream;
  streams_[number] = std::move(stream);
  --missing_;
}

TcpAccepting::TcpAccepting(std::shared_ptr<const TcpSettings> settings,
                           std::shared_ptr<bootstrap::Acceptor> acceptor, std::shared_ptr<StreamGroup> group,
                           const bootstrap::Hello& hello)
    : settings_(std::move(settings)),
      acceptor_(std::move(acceptor)),
      group_(std::move(group)),
      peer_host_(hello.host),
      deadline_(Deadline::after(bootstrap::patience_of(hello), *acceptor_->local()->clock)) {}

std::unique_ptr<Connection> TcpAccepting::poll() {
  if (!group_->complete()) {
    if (!deadline_.passed()) return nullptr;
    fail(Cause::kTimeout, "{} of its {} streams did not arrive within {} (from host {})", group_->missing(),
         group_->size(), format_seconds(to_seconds(deadline_.allowed())), peer_host_);
  }
  std::vector<bootstrap::AuthenticatedStream> streams = group_->take();
  SetUpResult made;
  made.settings = settings_;
  made.acceptor = acceptor_;
  made.hello = streams[0].hello;
  made.route = bootstrap::route_of(*acceptor_, streams[0]);
  std::map<std::string, double> rates;  // by NIC
  for (const bootstrap::AuthenticatedStream& stream : streams) {
    const Offer& offer = acceptor_->endpoint().offers[stream.offer];
    rates[offer.nic] = static_cast<double>(offer.rate_bits_per_second) / 8;
  }
  for (const auto& [nic, rate] : rates) made.bytes_per_second += rate;
  for (bootstrap::AuthenticatedStream& stream : streams)
    made.streams.push_back(connected_stream(*settings_, *acceptor_, std::move(stream)));
  return std::make_unique<TcpConnection>(std::move(made));
}

ConnectedStream connected_stream(const TcpSettings& settings, const bootstrap::Acceptor& acceptor,
                                 bootstrap::AuthenticatedStream stream) {
  ConnectedStream made;
  const Offer& offer = acceptor.endpoint().offers[stream.offer];
  made.local_nic = offer.nic;
  made.peer_nic = stream.hello.nic;
  made.limit = settings.limit_of(offer.nic);
  if (auto peer = stream.hello.reply_port != 0
                      ? bootstrap::address_of_peer(stream.socket.get(), stream.hello.reply_port)
                      : std::nullopt) {
    auto target = std::make_shared<bootstrap::Target>();
    target->nic = offer.nic;
    target->local_address = offer.address;
    target->peer = *peer;
    target->tls = stream.tls != nullptr;
    target->description = fmt::format("ask host {} at {} (NIC {} {})", stream.hello.host,
                                      bootstrap::to_text(*peer), offer.nic, offer.address);
    made.target = std::move(target);
  }
  made.socket = std::move(stream.socket);
  made.tls = std::move(stream.tls);
  return made;
}

}  // namespace tombolo::transport::tcp
