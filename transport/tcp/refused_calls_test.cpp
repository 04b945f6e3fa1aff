// A connection to which the system refuses what it needs to be made.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <set>

#include "transport/testing/forwarding_kernel.h"
#include "transport/testing/raw_peer.h"
#include "transport/testing/test_messages.h"

namespace tombolo::transport::tcp {
namespace {

using std::chrono::seconds;

/// Refuses a connection what it asks, and nobody else: only connections watch for edges of one stream each.
class RefusingKernel final : public test::ForwardingKernel {
 public:
  std::set<std::uint64_t> unwatched;  ///< streams, once each
  bool refuse_timers = false;

  int epoll_ctl(int epoll, int operation, int descriptor, epoll_event* event) noexcept override {
    if (event != nullptr && (event->events & EPOLLET) != 0 && unwatched.erase(event->data.u64) != 0) {
      errno = ENOSPC;
      return -1;
    }
    return ForwardingKernel::epoll_ctl(epoll, operation, descriptor, event);
  }
  int timerfd_create(int clock, int flags) noexcept override {
    if (!refuse_timers) return ForwardingKernel::timerfd_create(clock, flags);
    errno = EMFILE;
    return -1;
  }
};

class RefusedCalls : public testing::Test {
 protected:
  RefusedCalls() {
    RouterOptions options = test::router_options("right");
    options.tcp.idle_timeout = seconds(8);
    options.clock = &clock_;
    options.helpers = std::make_shared<bootstrap::ProcessHelpers>();
    router_ = std::make_unique<Router>(options);
  }

  RefusingKernel kernel_;
  KernelInPlace in_place_{kernel_};
  FakeClock clock_;
  std::unique_ptr<Router> router_;
};

TEST_F(RefusedCalls, AStreamThatCannotBeWatchedBreaksAndTheOthersCarryOn) {
  kernel_.unwatched = {1};
  test::RawPeer peer(*router_, 3);
  ASSERT_NE(peer.connection, nullptr);
  EXPECT_TRUE(kernel_.unwatched.empty());
  EXPECT_EQ(peer.connection->statistics().live_streams, 2u);
  std::array<std::byte, 10> buffer{};
  std::size_t bytes = 0;
  Request* receive = peer.connection->post_receive(buffer);
  peer.say(2, {FrameType::kChunk, GoodbyeReason::kClosed, 10, 0, 10, 0}, 10);
  EXPECT_EQ(test::finish(*peer.connection, receive, bytes), Outcome::kDone)
      << test::why_failed(*peer.connection);
  EXPECT_EQ(bytes, 10u);
}

// The peer's owner has its connection already, and would wait for ever were nothing said.
TEST_F(RefusedCalls, TheAcceptingEndMakesAFailedConnectionAndTellsItsPeer) {
  const auto listener = router_->listen();
  const Descriptor socket = test::connected_to(*listener);
  std::unique_ptr<Connection> connection;
  kernel_.refuse_timers = true;
  EXPECT_EQ(test::shake_hands(socket, test::hello_for(*listener),
                              [&] {
                                if (!connection) connection = listener->accept();
                              })
                .status,
            bootstrap::HandshakeStatus::kOk);
  for (const auto deadline = test::soon(); !connection && !deadline.passed();)
    connection = listener->accept();
  ASSERT_NE(connection, nullptr);
  ASSERT_NE(connection->error(), nullptr);
  EXPECT_EQ(connection->error()->cause(), Cause::kSystem);
  test::expect_in(connection->error()->what(), "timerfd_create: Too many open files");
  std::array<std::byte, 10> buffer{};
  std::size_t bytes = 0;
  Request* receive = connection->post_receive(buffer);
  EXPECT_TRUE(receive == nullptr || connection->test(receive, bytes) == Outcome::kFailed);
  HeaderBytes told;
  ASSERT_EQ(recv(socket.get(), told.data(), told.size(), MSG_WAITALL), std::ssize(told));
  const auto header = decode(told);
  ASSERT_TRUE(header.has_value());
  EXPECT_EQ(header->type, FrameType::kGoodbye);
  EXPECT_EQ(header->reason, GoodbyeReason::kFailed);
}

/// Memory that nobody may touch, as that of a GPU to a processor.
class NoMemory {
 public:
  NoMemory() : at_(mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~NoMemory() { munmap(at_, kBytes); }
  NoMemory(const NoMemory&) = delete;
  NoMemory& operator=(const NoMemory&) = delete;
  std::span<std::byte> span() const { return {static_cast<std::byte*>(at_), kBytes}; }

 private:
  static constexpr std::size_t kBytes = 1 << 20;
  void* at_;
};

// Another stream would be refused in the same way, over and over. (Of a receive the first bytes may be copied
// here, which ends the process, as any use of such memory.)
TEST(RefusedBuffers, OfASendFailsTheConnectionAndIsNotTriedAgain) {
  auto [left, right] = test::connect_routers(test::router_options("left"), test::router_options("right"));
  ASSERT_TRUE(left && right);
  const NoMemory none;
  std::vector<std::byte> some(none.span().size());
  Request* receive = right->post_receive(some);
  Request* send = left->post_send(none.span());
  std::size_t bytes = 0;
  EXPECT_EQ(test::finish(*left, send, bytes, right.get()), Outcome::kFailed);
  EXPECT_EQ(test::finish(*right, receive, bytes, left.get()), Outcome::kFailed);
  ASSERT_NE(left->error(), nullptr);
  EXPECT_EQ(left->error()->cause(), Cause::kInvalidUsage);
  test::expect_in(left->error()->what(), "is not memory of this process that the kernel can use");
}

}  // namespace
}  // namespace tombolo::transport::tcp
