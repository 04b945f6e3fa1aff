// Addresses and options of TCP sockets. Every socket is non-blocking and closed on exec.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "transport/descriptor.h"

namespace tombolo::transport::sockets {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const noexcept { return storage.ss_family; }
  /// Parses numeric IPv4 or IPv6. Throws kInvalidUsage.
  static SocketAddress parse(const std::string& address, std::uint16_t port);
};

/// "10.0.0.1:4711", "[fd00::1]:4711".
std::string to_text(const SocketAddress& address);
std::string to_text(const std::string& address, std::uint16_t port);
/// The address of the other end; "?" where the socket has none (any more).
std::string peer_text(int socket);

/// The other end's address with another port; nothing where the socket has no other end (any more).
std::optional<SocketAddress> address_of_peer(int socket, std::uint16_t port) noexcept;

/// The local address from which the kernel would send to `peer`, found without sending anything. Nothing
/// where there is no route.
std::optional<SocketAddress> source_towards(const SocketAddress& peer) noexcept;

/// Whether two addresses are of one host; their ports do not count.
bool same_address(const SocketAddress& left, const SocketAddress& right) noexcept;

/// True where both ends are the same socket: connecting to a free port of one's own address may choose that
/// very port as its source.
bool is_self_connected(int socket);

/// A listening socket on an ephemeral port, which is put into `port`. Throws kSystem naming `nic` and
/// address.
Descriptor listen_on(const std::string& nic, const std::string& address, std::uint16_t& port);

/// Starts connecting from `local` (any port) to `peer`. Throws kSystem for what cannot succeed later. What
/// may succeed later, such as a refusal, is reported through the socket.
Descriptor start_connect(const std::string& nic, const std::string& local, const SocketAddress& peer);

/// Sets the options of a connected stream: no delay; a vanished host is noticed within `idle_timeout`.
void set_stream_options(int socket, Duration idle_timeout);

/// Limits the bytes that wait unsent in the kernel, so that the choice between streams is made late.
void limit_unsent(int socket, int bytes);

/// Makes the kernel acknowledge every other small segment. By default it answers each one at once, which
/// costs 2 us on loopback, unless data soon goes the other way; and NCCL's connections carry data one way
/// only. The setting lasts until an acknowledgement was delayed in vain (tcp(7), TCP_QUICKACK).
void acknowledge_in_pairs(int socket) noexcept;

/// The error that SO_ERROR holds; reading clears it.
int pending_error(int socket) noexcept;

/// Round trip time that the kernel measured; zero where unknown.
Duration round_trip_time(int socket) noexcept;

/// Whether both ends are on one host: what a host sends to its own address never leaves it.
bool ends_on_one_host(int socket) noexcept;

/// Limits the bytes that wait in the kernel, sent or not. (The kernel doubles the value for its own needs.)
void limit_send_buffer(int socket, int bytes);

/// The shortest round trip that the kernel has seen: it depends on the path and not on how busy the ends are.
/// Zero where both ends are on one host, or where it is unknown.
Duration path_length(int socket) noexcept;

/// For how long the other host has left packets unanswered; zero while it answers (also with a closed
/// window).
Duration unanswered_for(int socket) noexcept;

/// True where the connection was reset, or both ends have ended it: nothing moves on it any more. (After the
/// peer's end a reset shows neither in recv(), which goes on to return 0, nor in what the kernel counts as
/// unacknowledged.)
bool is_over(int socket) noexcept;

}  // namespace tombolo::transport::sockets
