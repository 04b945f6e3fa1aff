#include "transport/bootstrap/listener.h"

#include <gtest/gtest.h>
#include <poll.h>

#include "transport/bootstrap/process_helpers.h"
#include "transport/testing/raw_peer.h"

namespace tombolo::transport::bootstrap {
namespace {

// Else a call would take the longer, the more peers have come meanwhile.
TEST(AListener, TakesOnOnlySoManyStreamsInOneCall) {
  RouterOptions options = test::router_options("right");
  options.helpers = std::make_shared<ProcessHelpers>(ProcessHelpers::Simulated{}, Clock::steady());
  Router router(options);
  const auto listener = router.listen(), other = router.listen();
  constexpr int kPeers = 20;
  std::vector<Descriptor> sockets;
  for (int i = 0; i < kPeers; ++i) {
    sockets.push_back(test::connected_to(*listener));
    // The other listener's calls let the process take the handshake on.
    const Reply reply =
        test::shake_hands(sockets.back(), test::hello_for(*listener), [&] { other->accept(); });
    ASSERT_EQ(reply.status, HandshakeStatus::kOk);
  }
  const auto some_wait = [&] {
    std::vector<pollfd> handles;
    listener->append_wait_handles(handles);
    return poll(&handles.at(1), 1, 0) == 1;
  };
  std::vector<std::unique_ptr<Connection>> connections;
  connections.push_back(listener->accept());
  EXPECT_TRUE(some_wait()) << "more than one call takes on";
  connections.push_back(listener->accept());
  EXPECT_FALSE(some_wait());
  for (int i = 2; i < kPeers; ++i) connections.push_back(listener->accept());
  for (const auto& connection : connections) EXPECT_NE(connection, nullptr);
}

}  // namespace
}  // namespace tombolo::transport::bootstrap
