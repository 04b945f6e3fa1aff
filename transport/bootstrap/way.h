// Where and how a connection is to be made, as the router chose, and the dialing that follows from it.
#pragma once

#include <poll.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/bootstrap/dial.h"
#include "transport/endpoint.h"
#include "transport/transport.h"

namespace tombolo::transport::bootstrap {

struct Way {
  Offer from, to;
  Route route;
  ConnectOptions options;
  std::uint32_t listener = 0;  ///< the peer's
  bool tls = false;            ///< its streams are encrypted
  Carrier carrier = Carrier::kTcp;
  /// Pairs of NICs (this end's, the peer's), disjoint, the chosen one first: TCP streams, or queue pairs, are
  /// spread over all.
  std::vector<std::pair<Offer, Offer>> nic_pairs = {};
  std::uint64_t process = 0;  ///< the peer's Endpoint::process
  bool whole = false;         ///< over all of `nic_pairs`, or not at all
};

/// The target of a stream between two of the way's NICs.
std::shared_ptr<const Target> target_of(const Way& way, const Offer& from, const Offer& to);

/// What a new connection says of itself on each of its streams. `sender` is this end's Endpoint::process.
Hello hello_of(const Way& way, std::uint64_t sender);

/// Dials the streams with which a connection begins, all at the same time and towards one target.
class Dialing {
 public:
  /// `hello` is the connection's; each stream gets its own number in it.
  Dialing(std::shared_ptr<const Local> local, const Way& way, std::shared_ptr<const Target> target,
          const Hello& hello, std::size_t streams);

  /// The peer listened before it told its endpoint, so that refusals for so long mean that it is gone. A
  /// single one may come from something on the way that is just being set up, where there is a way: a process
  /// of this host is gone at the first one.
  static constexpr Duration kGoneAfter = std::chrono::seconds(1);

  /// True once all streams are authenticated. Throws as Dial::poll() does; kRemote once the peer's kernel has
  /// refused a stream for so long, and kTimeout once the way's deadline has passed.
  bool poll();
  void append_wait_handles(std::vector<pollfd>& handles) const;

  std::vector<Dial>& streams() noexcept { return streams_; }
  const Deadline& deadline() const noexcept { return deadline_; }
  /// Adds to the route what the peer said of itself in the handshake: an endpoint that was encoded compactly
  /// has no names.
  void complete(Route& route) const;

 private:
  std::shared_ptr<const Local> local_;
  std::shared_ptr<const Target> target_;
  Deadline deadline_;
  Duration gone_after_;
  std::vector<Dial> streams_;
  Descriptor timer_;
};

}  // namespace tombolo::transport::bootstrap
