// The connecting end of a connection over TCP: opens as many streams as the path wants.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/backend.h"
#include "transport/bootstrap/acceptor.h"
#include "transport/bootstrap/dial.h"
#include "transport/bootstrap/local.h"
#include "transport/transport.h"

namespace tombolo::transport::tcp {

/// Where and how a connection is to be made, as chosen.
struct Way {
  Offer from, to;
  Route route;
  ConnectOptions options;
  std::uint32_t listener = 0;  ///< the peer's
  bool tls = false;            ///< its streams are encrypted
  Carrier carrier = Carrier::kTcp;
  /// Pairs of NICs (this end's, the peer's), disjoint: TCP streams, or queue pairs, are spread over all.
  std::vector<std::pair<Offer, Offer>> lanes = {};
};

class TcpConnecting final : public Connecting {
 public:
  /// `acceptor`: this process's, may be null.
  TcpConnecting(std::shared_ptr<const Local> local, std::shared_ptr<Acceptor> acceptor, Way way);

  std::unique_ptr<Connection> poll() override;
  void append_wait_handles(std::vector<pollfd>& handles) const override;

 private:
  Hello hello(std::size_t stream) const;

  std::shared_ptr<const Local> local_;
  std::shared_ptr<Acceptor> acceptor_;
  Way way_;
  std::vector<std::shared_ptr<const Target>> targets_;  // by pair of NICs
  Deadline deadline_;
  Nonce connection_{};
  std::vector<Dial> streams_;
  Descriptor timer_;
};

/// Opens a link, and has a backend make the connection of it.
class LinkConnecting final : public Connecting {
 public:
  LinkConnecting(std::shared_ptr<const Local> local, Way way, std::shared_ptr<Backend> backend);

  std::unique_ptr<Connection> poll() override;
  void append_wait_handles(std::vector<pollfd>& handles) const override;

 private:
  std::shared_ptr<const Local> local_;
  Way way_;
  std::shared_ptr<Backend> backend_;
  std::shared_ptr<const Target> target_;
  Deadline deadline_;
  Dial dial_;
  std::unique_ptr<Connecting> establishing_;
  Descriptor timer_;
};

}  // namespace tombolo::transport::tcp
