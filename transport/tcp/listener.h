// Accepts connections on all NICs of this process, and trusts only those that hold the secret.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <vector>

#include "transport/tcp/exchange.h"
#include "transport/tcp/handshake.h"
#include "transport/tcp/local.h"
#include "transport/transport.h"

namespace tombolo::transport::tcp {

class TcpListener final : public Listener {
 public:
  /// Binds every offer's address and fills in its port. Throws kSystem naming NIC and address.
  TcpListener(std::shared_ptr<const Local> local, Endpoint endpoint);

  const Endpoint& endpoint() const noexcept override { return endpoint_; }
  std::unique_ptr<Connection> accept() override;
  void append_wait_handles(std::vector<pollfd>& handles) const override;

 private:
  /// A stream on its way through the handshake.
  struct HalfOpen {
    enum class State { kHello, kReply, kFinish };
    Descriptor socket;
    std::size_t offer = 0;  // the NIC it came in on
    std::string peer;
    TimePoint until;
    State state = State::kHello;
    MessageReader reader;
    MessageWriter writer;
    std::vector<std::byte> hello_bytes, reply_bytes;
    Hello hello;
  };
  /// Trusted streams of one connection, until all are there.
  struct Group {
    Hello hello;
    std::size_t offer = 0;
    std::vector<Descriptor> sockets;
    std::size_t missing = 0;
    TimePoint until;
  };

  void take_new(std::size_t offer);
  /// True while the handshake goes on; false once it is over, well or not.
  bool advance(HalfOpen& half);
  bool advance_hello(HalfOpen& half);
  bool drop(const HalfOpen& half, std::string_view why);
  void trust(HalfOpen& half);
  void expire();
  std::unique_ptr<Connection> finish(Group group);

  std::shared_ptr<const Local> local_;
  Endpoint endpoint_;
  std::vector<Descriptor> sockets_;  // by offer
  Descriptor epoll_;
  std::map<std::uint64_t, HalfOpen> half_open_;  // by age
  std::map<Nonce, Group> groups_;
  std::list<Group> complete_;
  std::uint64_t next_key_;
  int accept_error_ = 0;  // the last one that was logged
};

}  // namespace tombolo::transport::tcp
