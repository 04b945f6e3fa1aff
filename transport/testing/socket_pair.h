// For tests: two sockets that are connected over loopback.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <utility>

#include "transport/descriptor.h"

namespace tombolo::transport::test {

inline std::pair<Descriptor, Descriptor> tcp_pair() {
  Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  EXPECT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  EXPECT_EQ(listen(listener.get(), 1), 0);
  EXPECT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&at), &size), 0);
  Descriptor near(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(near.get(), reinterpret_cast<sockaddr*>(&at), size), 0);
  return {std::move(near), Descriptor(accept(listener.get(), nullptr, nullptr))};
}

}  // namespace tombolo::transport::test
