// This rank's connections to its peers: opened when first needed, the lower rank connecting, the higher
// accepting.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "transport/routing/router.h"

namespace tombolo::collectives {

/// Each kind has connections of its own, so that any may be in flight while another is used: point-to-point
/// messages, and the channels of collectives (engine/channels.h).
enum class Traffic : std::uint8_t { kCollective = 0, kPointToPoint, kChannel1, kChannel2, kChannel3 };
inline constexpr std::array kAllTraffic{Traffic::kCollective, Traffic::kPointToPoint, Traffic::kChannel1,
                                        Traffic::kChannel2, Traffic::kChannel3};
inline constexpr std::array kChannelTraffic{Traffic::kCollective, Traffic::kChannel1, Traffic::kChannel2,
                                            Traffic::kChannel3};

/// One thread at a time.
class Mesh {
 public:
  struct Peer {
    std::string host;
    transport::Endpoint endpoint;
    std::string also = {};  ///< behind its rank in errors: " (rank 5 before the shrink)"
  };

  /// Starts to listen. `id` tells the communicators of one job apart. Communicators of one process share the
  /// router, and with it the rate limits of its NICs. `deadline` bounds the making of each connection.
  Mesh(std::shared_ptr<transport::Router> router, int rank, std::uint32_t id, Duration deadline);

  /// Counts from when each connection was asked for, also of those that are.
  void set_deadline(Duration deadline) noexcept { deadline_ = deadline; }

  /// What others need to reach this rank.
  const transport::Endpoint& endpoint() const noexcept { return listener_->endpoint(); }
  /// The peers, by rank.
  void set_peers(std::vector<Peer> peers);

  /// The connection to `peer`; null while it is being made, which the first call begins; call progress()
  /// meanwhile. Throws when it cannot be made. The mesh owns it.
  transport::Connection* open(Traffic traffic, int peer);
  transport::Connection* find(Traffic traffic, int peer) const noexcept;
  /// Whether connections asked for by open() are still to come.
  bool opening() const noexcept { return missing_ > 0; }
  /// Whether one with that peer is.
  bool awaits(int peer) const noexcept;
  /// Accepts and connects (several system calls); true where a connection came to be. Throws when one cannot
  /// be made.
  bool progress();
  /// Throws kTimeout where a peer that is to connect to this rank has not done so within the deadline since
  /// open() asked for it: progress() cannot tell one that died from one that has not come so far.
  void check_awaited() const;
  void append_wait_handles(std::vector<pollfd>& handles) const;
  void close_all() noexcept;

  /// "rank 3 on host b1 over eth0 -> eth0 (10.0.0.4:1234)"
  std::string describe(Traffic traffic, int peer) const;

 private:
  struct PeerConnection {
    std::unique_ptr<transport::Connecting> connecting;
    std::unique_ptr<transport::Connection> connection;
    std::optional<TimePoint> wanted;  // since when, once open() has asked for it
  };
  /// What the deadline has left since then.
  Duration left_since(TimePoint asked) const { return asked + deadline_ - router_->options().clock->now(); }
  void begin_to_connect(Traffic traffic, int peer);
  /// Null while it is being made.
  std::unique_ptr<transport::Connection> poll_connecting(Traffic traffic, int peer);
  PeerConnection& entry(Traffic traffic, int peer) {
    return connections_[static_cast<std::size_t>(traffic)][static_cast<std::size_t>(peer)];
  }
  const PeerConnection& entry(Traffic traffic, int peer) const {
    return connections_[static_cast<std::size_t>(traffic)][static_cast<std::size_t>(peer)];
  }

  std::shared_ptr<transport::Router> router_;
  int rank_;
  std::uint32_t id_;
  Duration deadline_;
  std::unique_ptr<transport::Listener> listener_;
  std::vector<Peer> peers_;
  std::array<std::vector<PeerConnection>, kAllTraffic.size()> connections_;
  std::vector<std::pair<Traffic, int>> opening_;  // connections that are being made
  int missing_ = 0;                               // connections that are wanted and not there
  bool closed_ = false;
};

}  // namespace tombolo::collectives
