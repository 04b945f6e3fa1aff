// What an end learns of its peer while nothing is posted.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <optional>

#include "transport/testing/raw_peer.h"
#include "transport/testing/test_support.h"

namespace tombolo::transport::tcp {
namespace {

using std::chrono::milliseconds;

class PeerOfAnIdleEnd : public testing::Test {
 protected:
  PeerOfAnIdleEnd() {
    RouterOptions options = test::router_options("right");
    options.clock = &clock_;
    router_ = std::make_unique<Router>(options);
    peer_ = std::make_unique<test::RawPeer>(*router_);
  }
  /// Lets a second pass, in which the owner turns the connection, and asks after the peer or does not.
  void pass_a_second(bool asks) {
    for (int i = 0; i < 20; ++i) {
      clock_.advance(milliseconds(50));
      peer_->connection->progress();
      if (asks) {
        EXPECT_FALSE(peer_->connection->peer_ended());
      }
    }
  }
  std::optional<FrameHeader> heard() {
    HeaderBytes bytes;
    if (recv(peer_->sockets[0].get(), bytes.data(), bytes.size(), MSG_DONTWAIT) != std::ssize(bytes))
      return {};
    return decode(bytes);
  }

  FakeClock clock_;
  std::unique_ptr<Router> router_;
  std::unique_ptr<test::RawPeer> peer_;
};

TEST_F(PeerOfAnIdleEnd, IsLeftAloneUntilTheOwnerAsksForIt) {
  pass_a_second(false);
  EXPECT_FALSE(heard());
  pass_a_second(true);
  const std::optional<FrameHeader> header = heard();
  ASSERT_TRUE(header);
  EXPECT_EQ(header->type, FrameType::kPing);
}

// The first chunk waits for a receive, so that nothing is read behind it.
TEST_F(PeerOfAnIdleEnd, IsMissedThoughAMessageThatNobodyReceivesHidesItsEnd) {
  FrameHeader chunk;
  chunk.type = FrameType::kChunk;
  chunk.length = 100;
  chunk.total = 100;
  peer_->say(0, chunk, 100);
  pass_a_second(true);
  const linger hard{1, 0};
  setsockopt(peer_->sockets[0].get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  peer_->sockets.clear();
  bool ended = false;
  for (int i = 0; i < 2000 && !ended; ++i) {
    clock_.advance(milliseconds(50));
    peer_->connection->progress();
    ended = peer_->connection->peer_ended();
  }
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace tombolo::transport::tcp
