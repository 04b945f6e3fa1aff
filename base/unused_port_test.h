// For tests that start something at a port of their own.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>
#include <stdexcept>

namespace tombolo {

/// A port of 127.0.0.1 that nobody has now. It is below Linux' range for those that the kernel chooses (32768
/// up), so that no connection or listener of another test is given it before it is used.
inline int unused_port() {
  std::random_device random;
  std::uniform_int_distribution<int> any(15000, 32000);
  for (int attempt = 0; attempt < 100; ++attempt) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(any(random)));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool unused = ::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    ::close(socket);
    if (unused) return ntohs(address.sin_port);
  }
  throw std::runtime_error("none of 100 ports of 127.0.0.1 was free");
}

}  // namespace tombolo
