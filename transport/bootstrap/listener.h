// Accepts connections on all NICs of this process from peers that hold the secret, and has the backend of the
// agreed carrier make each.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "transport/bootstrap/acceptor.h"
#include "transport/transport.h"

namespace tombolo::transport::bootstrap {

class AuthenticatingListener final : public Listener {
 public:
  /// Streams that one call of accept() takes on: it may not take the longer, the more peers come at once.
  static constexpr int kMostTaken = 16;

  explicit AuthenticatingListener(std::shared_ptr<Acceptor> acceptor);
  /// Takes over a listener that the acceptor's process has reserved.
  AuthenticatingListener(std::shared_ptr<Acceptor> acceptor, ReservedListener reserved);
  ~AuthenticatingListener() override;

  const Endpoint& endpoint() const noexcept override { return endpoint_; }
  std::unique_ptr<Connection> accept() override { return accept_with_legs().connection; }
  struct Accepted {
    std::unique_ptr<Connection> connection;  ///< null: none is ready
    ReservedListener legs = {};              ///< whereto the peer makes its further legs; none: not resumable
  };
  /// As accept().
  Accepted accept_with_legs();
  void append_wait_handles(std::vector<pollfd>& handles) const override;
  /// Whether connections are being made, which accept() moves on.
  bool busy() const noexcept { return !set_ups_.empty(); }

 private:
  /// A connection that its backend is still making.
  struct SetUp {
    std::unique_ptr<Connecting> connecting;
    std::string peer;
    Nonce connection{};
    std::uint32_t epoch = 0;
    ReservedListener legs;
  };

  void begin(AuthenticatedStream stream);
  Accepted next_ready();

  std::shared_ptr<Acceptor> acceptor_;
  std::shared_ptr<Inbox> inbox_;
  Endpoint endpoint_;
  std::list<SetUp> set_ups_;
};

}  // namespace tombolo::transport::bootstrap
