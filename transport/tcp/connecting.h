// The connecting end: opens the streams, proves to hold the secret, and retries what may yet succeed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/tcp/exchange.h"
#include "transport/tcp/handshake.h"
#include "transport/tcp/local.h"
#include "transport/tcp/socket.h"
#include "transport/transport.h"

namespace tombolo::transport::tcp {

class TcpConnecting final : public Connecting {
 public:
  /// `route` as chosen; `from` and `to` the two offers.
  TcpConnecting(std::shared_ptr<const Local> local, Offer from, Offer to, Route route,
                ConnectOptions options);

  std::unique_ptr<Connection> poll() override;
  void append_wait_handles(std::vector<pollfd>& handles) const override;

 private:
  struct Stream {
    enum class State { kWaiting, kConnecting, kHello, kReply, kFinish, kReady };
    Descriptor socket;
    State state = State::kWaiting;
    TimePoint again{};  // kWaiting: when to (re)try
    std::vector<std::byte> hello;
    MessageReader reader;
    MessageWriter writer;
  };

  void advance(Stream& stream, std::size_t index);
  void check_reply(Stream& stream);
  /// Puts the attempt off; the reason is told if the deadline passes.
  void retry(Stream& stream, std::string why);
  [[noreturn]] void give_up(Cause cause, std::string_view why);
  void decide_streams(int socket);

  std::shared_ptr<const Local> local_;
  Offer from_, to_;
  SocketAddress address_;
  Route route_;
  ConnectOptions options_;
  Deadline deadline_;
  std::string description_;
  Nonce connection_{};
  bool decided_ = false;  // how many streams
  std::vector<Stream> streams_;
  std::string last_trouble_;
  Descriptor timer_;
};

}  // namespace tombolo::transport::tcp
