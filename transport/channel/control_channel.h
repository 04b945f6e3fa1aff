// The authenticated stream beside a connection, on which its two ends agree how another transport carries the
// bytes: shared memory, RDMA, UCX.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "transport/backend.h"
#include "transport/descriptor.h"

namespace tombolo::transport {

class Meters;

namespace channel {

/// One end of the control channel, and what the connection is made with. The channel stays open for the
/// connection's life, so that each end learns at once when the other has gone, whatever carries the bytes.
struct ControlChannel {
  Descriptor socket;        ///< non-blocking, authenticated; only the backend's own messages follow on it
  bool connecting = false;  ///< this end asked for the connection
  Offer from;               ///< this end's NIC as chosen (connecting end), or the one the stream came in on
  Offer to;                 ///< the peer's NIC as chosen; connecting end only
  Route route;
  std::uint64_t label = 0;
  std::string peer_name;           ///< "rank 3"; may be empty
  Deadline deadline;               ///< for the whole set-up
  std::shared_ptr<Meters> meters;  ///< where the connection is to be counted; may be null
  /// Pairs of NICs that may carry it together, the chosen one first; connecting end only.
  std::vector<std::pair<Offer, Offer>> nic_pairs;
  Duration idle_timeout{};  ///< as in TcpOptions
  const Clock* clock = nullptr;
  Log log;
  Overlong overlong = Overlong::kError;  ///< as in RouterOptions
  bool whole = false;                    ///< connecting end: over all of `nic_pairs`, or not at all
};

/// A backend whose bytes do not go over the stream on which the handshake ran.
class ControlChannelBackend : public Backend {
 public:
  std::unique_ptr<Connecting> connect(std::shared_ptr<bootstrap::Acceptor> acceptor,
                                      bootstrap::Way way) final;
  std::unique_ptr<Connecting> accept(std::shared_ptr<bootstrap::Acceptor> acceptor,
                                     bootstrap::AuthenticatedStream stream) final;

  /// Each end calls it with its end of the channel. The returned object's poll() throws where the two cannot
  /// agree or bytes do not get through.
  virtual std::unique_ptr<Connecting> set_up(ControlChannel channel) = 0;
};

}  // namespace channel
}  // namespace tombolo::transport
