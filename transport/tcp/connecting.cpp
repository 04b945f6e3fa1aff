#include "transport/tcp/connecting.h"

#include <algorithm>

#include "transport/tcp/connection.h"
#include "transport/tcp/path/path_control.h"

namespace tombolo::transport::tcp {
namespace {

std::vector<std::shared_ptr<const bootstrap::Target>> targets_of(const bootstrap::Way& way) {
  std::vector<std::shared_ptr<const bootstrap::Target>> targets;
  for (const auto& [from, to] : way.nic_pairs) targets.push_back(bootstrap::target_of(way, from, to));
  return targets;
}

bootstrap::Hello hello_of(const bootstrap::Way& way, const bootstrap::Acceptor& acceptor) {
  bootstrap::Hello hello = bootstrap::hello_of(way, acceptor.endpoint().process);
  hello.reply_port = acceptor.port_of(way.from.address);
  return hello;
}

}  // namespace

TcpConnecting::TcpConnecting(std::shared_ptr<const TcpSettings> settings,
                             std::shared_ptr<bootstrap::Acceptor> acceptor, bootstrap::Way way)
    : settings_(std::move(settings)),
      acceptor_(std::move(acceptor)),
      way_(std::move(way)),
      targets_(targets_of(way_)),
      hello_(hello_of(way_, *acceptor_)),
      dialing_(acceptor_->local(), way_, targets_[0], hello_,
               static_cast<std::size_t>(std::max(settings_->options.streams, 1))) {
  TOMBOLO_CHECK(acceptor_->open_connection(hello_.connection, bootstrap::Side::kConnecting, inbox_),
                "the number of a new connection is another's");
}

TcpConnecting::~TcpConnecting() {
  if (!made_) acceptor_->close_connection(hello_.connection, bootstrap::Side::kConnecting);
}

std::unique_ptr<Connection> TcpConnecting::poll() {
  if (!dialing_.poll()) return nullptr;
  dialing_.complete(way_.route);
  std::vector<bootstrap::Dial>& dialed = dialing_.streams();
  // The handshakes' round trips have measured the path. The shortest counts, because a single one may have
  // met a busy host.
  const auto streams = static_cast<std::size_t>(
      settings_->options.streams > 0
          ? settings_->options.streams
          : streams_to_begin({sockets::path_length(dialed[0].socket()), targets_[0]->bytes_per_second,
                              window_of_this_host()}));
  SetUpResult made;
  made.settings = settings_;
  made.acceptor = acceptor_;
  made.connecting = true;
  made.inbox = inbox_;
  made.hello = hello_;
  made.hello.streams = static_cast<std::uint16_t>(dialed.size());
  made.route = way_.route;
  made.peer_name = way_.options.peer_name;
  for (const auto& target : targets_) made.bytes_per_second += target->bytes_per_second;
  for (bootstrap::Dial& stream : dialed) {
    Descriptor socket = stream.take_socket();
    const std::uint32_t epoch = stream.epoch();
    made.streams.push_back({std::move(socket), targets_[0]->nic, stream.reply().nic,
                            settings_->limit_of(targets_[0]->nic), targets_[0], stream.take_tls(), epoch});
  }
  // Further streams: those that the path needs besides, and as many over each other pair of NICs. The
  // connection works without them.
  for (std::size_t pair = 0; pair < targets_.size(); ++pair) {
    for (std::size_t i = pair == 0 ? dialed.size() : 0; i < streams; ++i)
      if (dialed.size() + made.wanted.size() < kMostStreams) made.wanted.push_back(targets_[pair]);
  }
  auto connection = std::make_unique<TcpConnection>(std::move(made));
  made_ = true;
  return connection;
}

}  // namespace tombolo::transport::tcp
