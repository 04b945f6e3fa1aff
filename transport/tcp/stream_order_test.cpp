#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "transport/observe/meter.h"
#include "transport/testing/test_support.h"

namespace tombolo::transport::tcp {
namespace {

constexpr std::size_t kStreams = 4, kChunk = 64 * 1024;

struct StreamOrder : testing::Test {
  void SetUp() override {
    RouterOptions left = test::router_options("left"), right = test::router_options("right");
    left.tcp.streams = right.tcp.streams = static_cast<int>(kStreams);
    left.tcp.chunk_bytes = kChunk;
    left.meters = meters_;
    left_ = std::make_unique<Router>(left);
    right_ = std::make_unique<Router>(right);
    listener_ = right_->listen();
    std::tie(near_, far_) = test::connect_pair(*left_, *listener_);
    for (auto deadline = test::soon(); near_->statistics().live_streams < kStreams;) {
      near_->progress();
      far_->progress();
      ASSERT_FALSE(deadline.passed()) << near_->statistics().live_streams << " streams";
    }
  }
  void send(std::size_t bytes) {
    std::vector<std::byte> out(bytes), in(bytes);
    Request* receive = far_->post_receive(in);
    Request* sent = near_->post_send(out);
    std::size_t moved = 0;
    ASSERT_EQ(test::finish(*far_, receive, moved, near_.get()), Outcome::kDone);
    ASSERT_EQ(test::finish(*near_, sent, moved, far_.get()), Outcome::kDone);
  }
  /// How many chunks each stream has sent.
  std::vector<std::uint64_t> chunks() const {
    std::vector<std::uint64_t> all;
    const MetersReading reading = meters_->read();
    for (const StreamReading& stream : reading.connections.at(0).streams) all.push_back(stream.sent_chunks);
    return all;
  }

  std::shared_ptr<Meters> meters_ = std::make_shared<Meters>();
  std::unique_ptr<Router> left_, right_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Connection> near_, far_;
};

// Each stream has room for all of them.
TEST_F(StreamOrder, LargeMessagesTakeTheStreamsInTurns) {
  for (std::size_t message = 0; message < 3 * kStreams; ++message) ASSERT_NO_FATAL_FAILURE(send(kChunk));
  for (const std::uint64_t sent : chunks()) EXPECT_GE(sent, 2U);
}

TEST_F(StreamOrder, SmallMessagesTakeTheFirstOne) {
  ASSERT_NO_FATAL_FAILURE(send(kChunk));
  ASSERT_NO_FATAL_FAILURE(send(100));
  const auto before = chunks();
  for (int message = 0; message < 20; ++message) ASSERT_NO_FATAL_FAILURE(send(100));
  auto expected = before;
  expected[0] += 20;
  EXPECT_EQ(chunks(), expected);
}

}  // namespace
}  // namespace tombolo::transport::tcp
