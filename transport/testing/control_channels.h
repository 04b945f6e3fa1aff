// For tests: the two ends of a control channel, without a handshake.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <utility>

#include "transport/channel/control_channel.h"
#include "transport/testing/test_support.h"

namespace tombolo::transport::test {

/// Two sockets that do not block.
inline std::pair<Descriptor, Descriptor> local_pair() {
  int pair[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
  return {Descriptor(pair[0]), Descriptor(pair[1])};
}

/// One end of it.
inline channel::ControlChannel control_channel(Descriptor socket, bool connecting,
                                               const Clock& clock = Clock::steady(), const Log& log = {}) {
  channel::ControlChannel made{std::move(socket),
                               connecting,
                               {},
                               {},
                               {},
                               5,
                               connecting ? "rank 1" : "rank 0",
                               Deadline::after(std::chrono::seconds(30), clock),
                               nullptr,
                               {},
                               std::chrono::seconds(10),
                               &clock,
                               log};
  made.route.peer_host = connecting ? "right" : "left";
  return made;
}

}  // namespace tombolo::transport::test
