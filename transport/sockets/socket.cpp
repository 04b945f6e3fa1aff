#include "transport/sockets/socket.h"

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/error.h"
#include "transport/kernel.h"

namespace tombolo::transport::sockets {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Many ranks of a job may connect to one listener at once.
constexpr int kListenBacklog = 1024;

void set_option(int socket, int level, int name, int value, std::string_view what) {
  if (kernel().setsockopt(socket, level, name, &value, sizeof value) != 0) fail_errno(errno, what);
}

bool tcp_info_of(int socket, tcp_info& info) noexcept {
  socklen_t size = sizeof info;
  return kernel().getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0;
}

}  // namespace

SocketAddress SocketAddress::parse(const std::string& address, std::uint16_t port) {
  SocketAddress parsed;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&parsed.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&parsed.storage);
  if (inet_pton(AF_INET, address.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    parsed.length = sizeof *v4;
  } else if (inet_pton(AF_INET6, address.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    parsed.length = sizeof *v6;
  } else {
    fail(Cause::kInvalidUsage, "'{}' is not a numeric IPv4 or IPv6 address", address);
  }
  return parsed;
}

std::string to_text(const std::string& address, std::uint16_t port) {
  bool v6 = address.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", address, port) : fmt::format("{}:{}", address, port);
}

std::string to_text(const SocketAddress& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.family() == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address.storage);
    inet_ntop(AF_INET, &v4->sin_addr, text.data(), text.size());
    return to_text(text.data(), ntohs(v4->sin_port));
  }
  if (address.family() == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
    inet_ntop(AF_INET6, &v6->sin6_addr, text.data(), text.size());
    return to_text(text.data(), ntohs(v6->sin6_port));
  }
  return "?";
}

std::string peer_text(int socket) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (kernel().getpeername(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0)
    return "?";
  return to_text(address);
}

std::optional<SocketAddress> address_of_peer(int socket, std::uint16_t port) noexcept {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (kernel().getpeername(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0)
    return std::nullopt;
  if (address.family() == AF_INET) reinterpret_cast<sockaddr_in*>(&address.storage)->sin_port = htons(port);
  if (address.family() == AF_INET6)
    reinterpret_cast<sockaddr_in6*>(&address.storage)->sin6_port = htons(port);
  return address;
}

std::optional<SocketAddress> source_towards(const SocketAddress& peer) noexcept {
  Descriptor socket(kernel().socket(peer.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  SocketAddress source;
  source.length = sizeof source.storage;
  if (!socket || kernel().connect(socket.get(), peer.get(), peer.length) != 0 ||
      kernel().getsockname(socket.get(), reinterpret_cast<sockaddr*>(&source.storage), &source.length) != 0) {
    return std::nullopt;
  }
  return source;
}

bool same_address(const SocketAddress& left, const SocketAddress& right) noexcept {
  if (left.family() != right.family()) return false;
  if (left.family() == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(left.storage).sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in&>(right.storage).sin_addr.s_addr;
  }
  const auto& mine = reinterpret_cast<const sockaddr_in6&>(left.storage).sin6_addr;
  const auto& other = reinterpret_cast<const sockaddr_in6&>(right.storage).sin6_addr;
  return std::memcmp(&mine, &other, sizeof mine) == 0;
}

bool is_self_connected(int socket) {
  SocketAddress own;
  own.length = sizeof own.storage;
  return kernel().getsockname(socket, reinterpret_cast<sockaddr*>(&own.storage), &own.length) == 0 &&
         to_text(own) == peer_text(socket);
}

Descriptor listen_on(const std::string& nic, const std::string& address, std::uint16_t& port) {
  auto at = SocketAddress::parse(address, 0);
  Descriptor socket(kernel().socket(at.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!socket) fail_errno(errno, fmt::format("open a socket for NIC {} ({})", nic, address));
  if (at.family() == AF_INET6) set_option(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1, "set IPV6_V6ONLY");
  if (kernel().bind(socket.get(), at.get(), at.length) != 0) {
    fail_errno(errno,
               fmt::format("bind to NIC {}'s address {} (is it an address of this machine?)", nic, address));
  }
  if (kernel().listen(socket.get(), kListenBacklog) != 0) {
    fail_errno(errno, fmt::format("listen on NIC {}'s address {}", nic, address));
  }
  SocketAddress bound;
  bound.length = sizeof bound.storage;
  if (kernel().getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound.storage), &bound.length) != 0) {
    fail_errno(errno, "getsockname");
  }
  port = ntohs(bound.family() == AF_INET ? reinterpret_cast<sockaddr_in*>(&bound.storage)->sin_port
                                         : reinterpret_cast<sockaddr_in6*>(&bound.storage)->sin6_port);
  return socket;
}

Descriptor start_connect(const std::string& nic, const std::string& local, const SocketAddress& peer) {
  auto from = SocketAddress::parse(local, 0);
  Descriptor socket(kernel().socket(peer.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!socket) fail_errno(errno, fmt::format("open a socket on NIC {} for {}", nic, to_text(peer)));
  // The port is then chosen at connect, per destination, so that thousands of connections do not exhaust the
  // range.
  set_option(socket.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1, "set IP_BIND_ADDRESS_NO_PORT");
  if (kernel().bind(socket.get(), from.get(), from.length) != 0) {
    fail_errno(errno,
               fmt::format("bind to NIC {}'s address {} (is it an address of this machine?)", nic, local));
  }
  if (kernel().connect(socket.get(), peer.get(), peer.length) != 0 && errno != EINPROGRESS &&
      errno != EINTR && errno != ECONNREFUSED && errno != ECONNRESET && errno != ETIMEDOUT &&
      errno != EAGAIN) {
    int reason = errno;
    // "Unreachable" may mean a route or a neighbour that does not exist yet, so such an attempt may be
    // repeated until the deadline.
    if (reason != ENETUNREACH && reason != EHOSTUNREACH) {
      fail_errno(reason, fmt::format("connect from NIC {} ({}) to {}", nic, local, to_text(peer)));
    }
  }
  return socket;
}

void set_stream_options(int socket, Duration idle_timeout) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1, "set TCP_NODELAY");
  // While nothing is sent, keepalive probes the peer's host: first after half of the time, then three times.
  // TCP_USER_TIMEOUT is left alone: it would also end connections to a live host whose process reads nothing
  // for a while, and it overrides keepalive's count. unanswered_for() covers unacknowledged bytes.
  auto idle = std::chrono::duration_cast<seconds>(idle_timeout).count();
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1, "set SO_KEEPALIVE");
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, static_cast<int>(std::clamp(idle / 2, 1L, 32767L)),
             "set TCP_KEEPIDLE");
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, static_cast<int>(std::clamp(idle / 6, 1L, 32767L)),
             "set TCP_KEEPINTVL");
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 3, "set TCP_KEEPCNT");
}

void limit_unsent(int socket, int bytes) {
  set_option(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, bytes, "set TCP_NOTSENT_LOWAT");
}

void acknowledge_in_pairs(int socket) noexcept {
  const int off = 0;
  kernel().setsockopt(socket, IPPROTO_TCP, TCP_QUICKACK, &off, sizeof off);
}

int pending_error(int socket) noexcept {
  int error = 0;
  socklen_t size = sizeof error;
  return kernel().getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

Duration round_trip_time(int socket) noexcept {
  tcp_info info{};
  return tcp_info_of(socket, info) ? std::chrono::microseconds(info.tcpi_rtt) : Duration::zero();
}

bool ends_on_one_host(int socket) noexcept {
  const auto peer = address_of_peer(socket, 0);
  SocketAddress own;
  own.length = sizeof own.storage;
  return peer && kernel().getsockname(socket, reinterpret_cast<sockaddr*>(&own.storage), &own.length) == 0 &&
         same_address(own, *peer);
}

void limit_send_buffer(int socket, int bytes) {
  set_option(socket, SOL_SOCKET, SO_SNDBUF, bytes, "set SO_SNDBUF");
}

Duration path_length(int socket) noexcept {
  tcp_info info{};
  if (ends_on_one_host(socket) || !tcp_info_of(socket, info)) return Duration::zero();
  return std::chrono::microseconds(info.tcpi_min_rtt);
}

Duration unanswered_for(int socket) noexcept {
  tcp_info info{};
  if (!tcp_info_of(socket, info)) return Duration::zero();
  // Both counters fall to zero with any acknowledgement; so a live host whose process does not read (closed
  // window, probes answered) does not count. One probe may stay unanswered: a kernel answers them every 500
  // ms at most (net.ipv4.tcp_invalid_ratelimit).
  if (info.tcpi_retransmits == 0 && info.tcpi_probes < 2) return Duration::zero();
  return milliseconds(info.tcpi_last_ack_recv);
}

bool is_over(int socket) noexcept {
  constexpr int kClosed = 7;  // TCP_CLOSE, which is in <linux/tcp.h>, with an older tcp_info
  tcp_info info{};
  return !tcp_info_of(socket, info) || info.tcpi_state == kClosed;
}

}  // namespace tombolo::transport::sockets
