// A way of carrying bytes that its two ends agree on over an authenticated TCP stream: shared memory, RDMA,
// UCX.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "transport/descriptor.h"
#include "transport/transport.h"

namespace tombolo::transport {

class Meters;

/// The stream on which the two ends of a connection agree how its bytes will be carried. It stays open for
/// the connection's life, so that each end learns at once when the other is gone, whatever carries the bytes.
struct Link {
  Descriptor socket;        ///< non-blocking, authenticated; nothing but the backend's own words follow on it
  bool connecting = false;  ///< this end asked for the connection
  Offer from;               ///< this end's NIC as chosen (connecting end), or the one the stream came in on
  Offer to;                 ///< the peer's NIC as chosen; connecting end only
  Route route;
  std::uint64_t label = 0;
  std::string peer_name;           ///< "rank 3"; may be empty
  Deadline deadline;               ///< for the whole set-up
  std::shared_ptr<Meters> meters;  ///< where the connection is to be counted; may be null
  /// Pairs of NICs that may carry it together, the chosen one first; connecting end only.
  std::vector<std::pair<Offer, Offer>> lanes;
};

/// What every connection over a link is made with.
struct Linked {
  Link link;
  Duration idle_timeout{};  ///< as in TcpOptions
  const Clock* clock = nullptr;
  Log log;
};

/// What a backend's code names in its messages: "shm connection to rank 3 on host b0 (NIC eth0 ->
/// eth0 10.0.0.2)".
std::string describe(std::string_view carrier, const Route& route, std::string_view peer_name);

/// " over roce (emulated)", or nothing for plain TCP.
std::string as_kind(const Route& route);

/// One per process and router. establish() may be called from any thread; what it makes belongs to one at a
/// time.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual Carrier carrier() const noexcept = 0;
  /// Both ends call it, each for its end of the stream. What it returns throws where the two cannot agree or
  /// bytes do not get through; the connecting end then turns to the next best way.
  virtual std::unique_ptr<Connecting> establish(Link link) = 0;
};

}  // namespace tombolo::transport
