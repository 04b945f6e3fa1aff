// The ways to a peer, best first, and the attempt to connect by one after the other.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "transport/bootstrap/acceptor.h"
#include "transport/bootstrap/local.h"
#include "transport/bootstrap/way.h"
#include "transport/routing/nic_pair_absences.h"
#include "transport/routing/router.h"

namespace tombolo::transport {

/// What a router knows of its own end. Immutable, and shared with connections that may outlive the router.
class Ways {
 public:
  /// `self`: this end's offers; its ports do not matter.
  Ways(std::shared_ptr<const bootstrap::Local> local, Endpoint self, Policy policy)
      : local_(std::move(local)), self_(std::move(self)), policy_(std::move(policy)) {}

  /// The ways to the peer. The NICs of the pairs that `without` names are left out at both ends where another
  /// way remains without them: it is not known at which end a pair has failed. A connection by a way whose
  /// route says `resumable` can be taken on over another of them.
  /// Throws as choose() does.
  std::vector<bootstrap::Way> to(const Endpoint& peer, const ConnectOptions& options,
                                 const std::vector<NicPairName>& without = {}) const;
  /// Whether that NIC of this end works at the moment, as far as the transports know.
  bool ready(const std::string& nic) const noexcept {
    return std::ranges::all_of(local_->backends, [&](const auto& one) { return one->ready(nic); });
  }

 private:
  std::vector<bootstrap::Way> among(const Endpoint& self, const Endpoint& peer,
                                    const ConnectOptions& options) const;

  std::shared_ptr<const bootstrap::Local> local_;
  Endpoint self_;
  Policy policy_;
};

/// Tries one way after the other, best first, and says why it left one for the next.
class BestConnecting final : public Connecting {
 public:
  /// `ways` is not empty.
  BestConnecting(std::shared_ptr<bootstrap::Acceptor> acceptor, std::vector<bootstrap::Way> ways);
  std::unique_ptr<Connection> poll() override;
  void append_wait_handles(std::vector<pollfd>& handles) const override;
  /// The pairs of NICs of the ways that were left and to which a connection over the next one may go.
  const std::vector<NicPairName>& left() const noexcept { return left_; }

 private:
  void start();
  void turn_to_next(const Error& error, bool start_it = true);

  std::shared_ptr<bootstrap::Acceptor> acceptor_;
  std::vector<bootstrap::Way> ways_;
  std::size_t at_ = 0;
  std::string tried_;  // all that failed
  std::vector<NicPairName> left_;
  std::unique_ptr<Connecting> connecting_;
};

}  // namespace tombolo::transport
