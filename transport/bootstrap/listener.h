// Accepts connections on all NICs of this process, and trusts only those that hold the secret.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <vector>

#include "transport/bootstrap/acceptor.h"
#include "transport/bootstrap/local.h"
#include "transport/tcp/connection.h"
#include "transport/transport.h"

namespace tombolo::transport::tcp {

class TcpListener final : public Listener {
 public:
  TcpListener(std::shared_ptr<const Local> local, std::shared_ptr<Acceptor> acceptor);

  const Endpoint& endpoint() const noexcept override { return endpoint_; }
  std::unique_ptr<Connection> accept() override;
  void append_wait_handles(std::vector<pollfd>& handles) const override;

 private:
  /// Streams of one connection, until all are there.
  struct Group {
    std::vector<Trusted> streams;
    std::size_t missing = 0;
    TimePoint until;
  };
  /// On its way from an agreed link to a connection.
  struct Establishing {
    std::unique_ptr<Connecting> connecting;
    std::string peer;
  };

  void gather(Trusted stream);
  void expire();
  void establish(Trusted stream, const std::shared_ptr<Backend>& backend);
  std::unique_ptr<Connection> established();
  std::unique_ptr<Connection> finish(Group group);
  Route route_of(const Trusted& stream) const;

  std::shared_ptr<const Local> local_;
  std::shared_ptr<Acceptor> acceptor_;
  std::shared_ptr<Inbox> inbox_;
  Endpoint endpoint_;
  std::map<Nonce, Group> groups_;
  std::list<Group> complete_;
  std::list<Establishing> establishing_;
};

}  // namespace tombolo::transport::tcp
