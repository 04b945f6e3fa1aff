// For tests: a peer whose host takes connections and whose process never answers, as one that is stopped.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>

#include "net_plugin/comms/handle.h"
#include "transport/descriptor.h"

namespace tombolo::net_plugin::testing_support {

class SilentPeer {
 public:
  SilentPeer() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(::listen(socket_.get(), 64), 0);
    EXPECT_EQ(::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
    port_ = ntohs(address.sin_port);
  }
  /// The handle of a listener on loopback, as if that were this peer's.
  HandleBytes in_place_of(const HandleBytes& bytes) const {
    Handle handle = Handle::decode(bytes);
    for (transport::Offer& offer : handle.endpoint.offers) offer.port = port_;
    return handle.encode();
  }

 private:
  transport::Descriptor socket_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::uint16_t port_ = 0;
};

}  // namespace tombolo::net_plugin::testing_support
