// The sockets at which a process accepts: one for each address, whichever of its routers has it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "transport/bootstrap/local_end.h"
#include "transport/descriptor.h"

namespace tombolo::transport::bootstrap {

/// A socket that listens at one address, and the routers that have the address.
struct ListeningSocket {
  Descriptor socket;
  std::string nic;      ///< as the router called it that had the address first
  std::string address;  ///< of the NIC
  /// An endpoint may have several offers with the same address: the socket is for those that have so many
  /// before them.
  std::size_t nth = 0;
  std::uint16_t port = 0;
  std::vector<const LocalEnd*> ends;

  /// The log of one of the routers: for strangers who have not said whom they want.
  const Log& log() const noexcept;
  /// The TLS settings of one of the routers; null where none uses TLS.
  std::shared_ptr<const sockets::Tls> tls() const noexcept;
};

/// Not thread-safe: belongs to HalfOpenStreams, whose lock protects it.
class ListeningSockets {
 public:
  /// `epoll` reports events on the sockets under their keys; it outlives this object.
  explicit ListeningSockets(int epoll) noexcept : epoll_(epoll) {}

  /// Has each of the endpoint's offers listened at, and fills in the ports; `next_key` gives new sockets
  /// their keys. Throws kSystem naming NIC and address.
  std::shared_ptr<const LocalEnd> open(std::shared_ptr<const Local> local, Endpoint endpoint,
                                       std::uint64_t& next_key);
  /// Closes the sockets that no other end has.
  void leave(const LocalEnd& end) noexcept;

  /// The socket of that key; null where there is none.
  const ListeningSocket* find(std::uint64_t key) const noexcept;

  /// Accepts nothing until then, because a listening socket with a waiting connection stays readable and
  /// would keep the caller busy.
  void pause(TimePoint until) noexcept;
  /// Accepts again once that time has come. Where the kernel cannot watch the sockets, it is tried again
  /// after `again`.
  void resume(TimePoint now, Duration again) noexcept;

 private:
  bool watch(std::uint64_t key, const ListeningSocket& socket) noexcept;

  int epoll_;
  std::map<std::uint64_t, ListeningSocket> sockets_;
  TimePoint paused_until_{};  // zero while it accepts
};

}  // namespace tombolo::transport::bootstrap
