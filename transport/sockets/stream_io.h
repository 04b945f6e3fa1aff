// How the two halves of a connection read and write the bytes of a stream: over a plain socket, or through a
// TLS session on it.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstring>
#include <span>

#include "transport/kernel.h"
#include "transport/sockets/tls_stream.h"

namespace tombolo::transport::sockets {

/// A view: it owns neither the socket nor the session. Calls neither block nor raise signals.
struct StreamIo {
  StreamIo(int on, TlsStream* with = nullptr) noexcept : socket(on), tls(with) {}

  int socket;
  TlsStream* tls;  ///< null: plain

  /// Writes as sendmsg(2) does. With TLS, bytes that were taken may still wait for room in the socket: see
  /// pending(). Few bytes in one piece go out by send(2), which costs the kernel less than a list of pieces.
  ssize_t write(std::span<iovec> parts) const noexcept {
    if (tls != nullptr) [[unlikely]]
      return tls->write(parts);
    std::array<std::byte, 512> gathered;
    std::size_t total = 0;
    for (const iovec& part : parts) {
      if (part.iov_len > gathered.size() - total) return write_list(parts);
      std::memcpy(gathered.data() + total, part.iov_base, part.iov_len);
      total += part.iov_len;
    }
    return kernel().send(socket, gathered.data(), total, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  ssize_t write_list(std::span<iovec> parts) const noexcept {
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    return kernel().sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  /// Reads as recvmsg(2) does. Fewer bytes than wanted mean that there are no more now, unless buffered().
  ssize_t read(std::span<iovec> parts) const noexcept {
    if (tls != nullptr) [[unlikely]]
      return tls->read(parts);
    if (parts.size() == 1) return kernel().recv(socket, parts[0].iov_base, parts[0].iov_len, MSG_DONTWAIT);
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    return kernel().recvmsg(socket, &message, MSG_DONTWAIT);
  }
  bool pending() const noexcept { return tls != nullptr && tls->pending(); }
  /// Whether something can be read although the socket is empty.
  bool buffered() const noexcept { return tls != nullptr && tls->buffered(); }
};

}  // namespace tombolo::transport::sockets
