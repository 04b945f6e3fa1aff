#include "transport/tcp/accepting.h"

#include <map>

#include "base/error.h"
#include "base/units.h"

namespace tombolo::transport::tcp {

void StreamGroup::add(bootstrap::AuthenticatedStream stream, const Log& log) {
  const bootstrap::Hello& hello = stream.hello;
  if (hello.streams != streams_.size() || hello.carrier != Carrier::kTcp) {
    log.warning(
        "dropped a stream from {}: stream {} of {} does not fit the connection it claims to belong to",
        stream.peer, hello.stream, hello.streams);
    return;
  }
  bootstrap::AuthenticatedStream& place = streams_[hello.stream];
  if (place.socket) {
    if (hello.epoch <= place.hello.epoch) {
      log.warning("dropped a stream from {}: stream {} of {} is there already, in epoch {}", stream.peer,
                  hello.stream, hello.streams, place.hello.epoch);
      return;
    }
    log.info("stream {} of {} came again from {}: its peer did not get the reply", hello.stream,
             hello.streams, stream.peer);
    ++missing_;
  }
  place = std::move(stream);
  --missing_;
}

TcpAccepting::TcpAccepting(std::shared_ptr<const TcpSettings> settings,
                           std::shared_ptr<bootstrap::Acceptor> acceptor,
                           bootstrap::AuthenticatedStream first)
    : settings_(std::move(settings)),
      acceptor_(std::move(acceptor)),
      group_(first.hello.streams),
      number_(first.hello.connection),
      peer_host_(first.hello.host),
      deadline_(Deadline::after(bootstrap::patience_of(first.hello), *acceptor_->local()->clock)) {
  group_.add(std::move(first), acceptor_->local()->log);
  if (!acceptor_->open_connection(number_, bootstrap::Side::kAccepting, inbox_))
    fail(Cause::kRemote, "the connection that its stream joins is there already, or was");
}

TcpAccepting::~TcpAccepting() {
  if (!made_) acceptor_->close_connection(number_, bootstrap::Side::kAccepting);
}

void TcpAccepting::append_wait_handles(std::vector<pollfd>& handles) const {
  // The first streams come through the listener, those after them through this.
  if (int handle = inbox_->wait_handle(); handle >= 0) handles.push_back({handle, POLLIN, 0});
}

std::unique_ptr<Connection> TcpAccepting::poll() {
  // Also where it has all: of a peer that did not get a reply another attempt may have come.
  while (auto stream = inbox_->take()) {
    if (stream->hello.purpose == bootstrap::Purpose::kJoin)
      group_.add(std::move(*stream), acceptor_->local()->log);
    else
      further_.push_back(std::move(*stream));
  }
  if (!group_.complete()) {
    if (!deadline_.passed()) return nullptr;
    fail(Cause::kTimeout, "{} of its {} streams did not arrive within {} (from host {})", group_.missing(),
         group_.size(), format_seconds(to_seconds(deadline_.allowed())), peer_host_);
  }
  std::vector<bootstrap::AuthenticatedStream> streams = group_.take();
  for (bootstrap::AuthenticatedStream& one : further_) inbox_->put(std::move(one));
  further_.clear();
  SetUpResult made;
  made.settings = settings_;
  made.acceptor = acceptor_;
  made.hello = streams[0].hello;
  made.inbox = inbox_;
  made.route = bootstrap::route_of(*acceptor_, streams[0]);
  std::map<std::string, double> rates;  // by NIC
  for (const bootstrap::AuthenticatedStream& stream : streams) {
    const Offer& offer = acceptor_->endpoint().offers[stream.offer];
    rates[offer.nic] = static_cast<double>(offer.rate_bits_per_second) / 8;
  }
  for (const auto& [nic, rate] : rates) made.bytes_per_second += rate;
  for (bootstrap::AuthenticatedStream& stream : streams)
    made.streams.push_back(connected_stream(*settings_, *acceptor_, std::move(stream)));
  auto connection = std::make_unique<TcpConnection>(std::move(made));
  made_ = true;
  return connection;
}

ConnectedStream connected_stream(const TcpSettings& settings, const bootstrap::Acceptor& acceptor,
                                 bootstrap::AuthenticatedStream stream) {
  ConnectedStream made;
  const Offer& offer = acceptor.endpoint().offers[stream.offer];
  made.local_nic = offer.nic;
  made.peer_nic = stream.hello.nic;
  made.epoch = stream.hello.epoch;
  made.limit = settings.limit_of(offer.nic);
  if (auto peer = stream.hello.reply_port != 0
                      ? sockets::address_of_peer(stream.socket.get(), stream.hello.reply_port)
                      : std::nullopt) {
    auto target = std::make_shared<bootstrap::Target>();
    target->nic = offer.nic;
    target->local_address = offer.address;
    target->peer = *peer;
    target->tls = stream.tls != nullptr;
    target->description = fmt::format("ask host {} at {} (NIC {} {})", stream.hello.host,
                                      sockets::to_text(*peer), offer.nic, offer.address);
    made.target = std::move(target);
  }
  made.socket = std::move(stream.socket);
  made.tls = std::move(stream.tls);
  return made;
}

}  // namespace tombolo::transport::tcp
