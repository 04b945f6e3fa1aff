// What one call does at most, whatever the peer does: against a peer that holds the secret and never stops.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "base/units.h"
#include "transport/bootstrap/process_helpers.h"
#include "transport/tcp/stream/receive_side.h"
#include "transport/testing/forwarding_kernel.h"
#include "transport/testing/raw_peer.h"
#include "transport/testing/test_messages.h"

namespace tombolo::transport::tcp {
namespace {

using std::chrono::seconds;

/// On one socket there is always more to read, pings without end, or more room than is written.
class FloodingKernel final : public test::ForwardingKernel {
 public:
  FloodingKernel() { encode({.type = FrameType::kPing}, ping_); }

  int accepted = -1;            ///< the socket that was accepted last
  std::optional<int> flooded;   ///< the one with pings
  std::size_t given = 0;        ///< bytes of pings that were read
  int unread_pings = 0;         ///< bytes of them that have come, as the kernel says
  std::optional<int> broken;    ///< what is written to it fails
  std::optional<int> swallows;  ///< it takes all that is written to it, at once
  std::size_t swallowed = 0;    ///< bytes

  int accept4(int socket, sockaddr* address, socklen_t* length, int flags) noexcept override {
    const int got = ForwardingKernel::accept4(socket, address, length, flags);
    if (got >= 0) accepted = got;
    return got;
  }
  ssize_t recv(int socket, void* data, std::size_t size, int flags) noexcept override {
    if (socket != flooded) return ForwardingKernel::recv(socket, data, size, flags);
    return fill(data, size);
  }
  ssize_t recvmsg(int socket, msghdr* message, int flags) noexcept override {
    if (socket != flooded) return ForwardingKernel::recvmsg(socket, message, flags);
    ssize_t total = 0;
    for (std::size_t i = 0; i < message->msg_iovlen; ++i)
      total += fill(message->msg_iov[i].iov_base, message->msg_iov[i].iov_len);
    return total;
  }
  int unread(int socket, int* bytes) noexcept override {
    if (socket != flooded) return ForwardingKernel::unread(socket, bytes);
    *bytes = unread_pings;
    return 0;
  }
  ssize_t send(int socket, const void* data, std::size_t size, int flags) noexcept override {
    if (socket == swallows) return swallow(size);
    if (socket != broken) return ForwardingKernel::send(socket, data, size, flags);
    errno = EPIPE;
    return -1;
  }
  ssize_t sendmsg(int socket, const msghdr* message, int flags) noexcept override {
    if (socket != swallows) return ForwardingKernel::sendmsg(socket, message, flags);
    std::size_t total = 0;
    for (std::size_t i = 0; i < message->msg_iovlen; ++i) total += message->msg_iov[i].iov_len;
    return swallow(total);
  }

 private:
  ssize_t swallow(std::size_t size) noexcept {
    swallowed += size;
    return static_cast<ssize_t>(size);
  }
  ssize_t fill(void* to, std::size_t size) noexcept {
    for (std::size_t at = 0; at < size;) {
      const std::size_t begin = given % kHeaderBytes, part = std::min(kHeaderBytes - begin, size - at);
      std::memcpy(static_cast<std::byte*>(to) + at, ping_.data() + begin, part);
      at += part;
      given += part;
    }
    return static_cast<ssize_t>(size);
  }
  HeaderBytes ping_;
};

class BoundedCalls : public testing::Test {
 protected:
  static constexpr std::size_t kMostPerCall = 2 * kMiB;

  BoundedCalls() {
    RouterOptions options = test::router_options("right");
    options.tcp.idle_timeout = seconds(8);
    options.clock = &clock_;
    // No other thread moves the connection.
    options.helpers =
        std::make_shared<bootstrap::ProcessHelpers>(bootstrap::ProcessHelpers::Simulated{}, Clock::steady());
    router_ = std::make_unique<Router>(options);
    peer_ = std::make_unique<test::RawPeer>(*router_);
  }
  ~BoundedCalls() override {
    kernel_.flooded = kernel_.broken = std::nullopt;
    peer_->sockets.clear();  // so that closing waits for nobody
  }
  Connection& connection() { return *peer_->connection; }
  /// How many bytes of pings a call reads.
  std::size_t read_by(const std::function<void()>& call) {
    const std::size_t before = kernel_.given;
    call();
    return kernel_.given - before;
  }

  FloodingKernel kernel_;
  KernelInPlace in_place_{kernel_};
  FakeClock clock_;
  std::unique_ptr<Router> router_;
  std::unique_ptr<test::RawPeer> peer_;
};

TEST_F(BoundedCalls, ReadOnlySoMuchOfAPeerThatNeverStops) {
  std::array<std::byte, 10> buffer;
  Request* receive = connection().post_receive(buffer);
  std::size_t bytes = 0;
  kernel_.flooded = kernel_.accepted;
  for (int i = 0; i < 5; ++i) {
    const std::size_t by_progress = read_by([&] { connection().progress(); });
    const std::size_t by_test = read_by([&] { connection().test(receive, bytes); });
    EXPECT_GT(by_progress, kMostPerCall / 2);
    EXPECT_LE(by_progress, kMostPerCall);
    EXPECT_LE(by_test, kMostPerCall);
  }
  EXPECT_EQ(connection().error(), nullptr) << test::why_failed(connection());
}

TEST_F(BoundedCalls, ReadOnlySoMuchBehindAChunkThatWaitsForItsReceive) {
  const std::vector<std::byte> data(kMiB);
  Request* send = connection().post_send(data);  // waits for its acknowledgement
  peer_->say(0, {FrameType::kChunk, GoodbyeReason::kClosed, 10, 0, 10, 0}, 10);
  std::size_t bytes = 0;
  pollfd come{kernel_.accepted, POLLIN, 0};
  ASSERT_EQ(poll(&come, 1, 10'000), 1);
  ASSERT_EQ(connection().test(send, bytes), Outcome::kPending);
  kernel_.flooded = kernel_.accepted;
  for (int i = 0; i < 20; ++i) EXPECT_LE(read_by([&] { connection().progress(); }), kMostPerCall);
  EXPECT_GE(kernel_.given, ReceiveSide::kMostAhead - kMostPerCall) << "all that may be kept";
  EXPECT_LE(kernel_.given, ReceiveSide::kMostAhead + kMostPerCall);
  EXPECT_EQ(connection().error(), nullptr) << test::why_failed(connection());
}

// What is read, and what is due by time, may each let it send once more.
TEST_F(BoundedCalls, WriteOnlySoMuchToAPeerThatTakesItAtOnce) {
  const std::vector<std::byte> data(64 * kMiB);
  kernel_.swallows = kernel_.accepted;
  Request* send = connection().post_send(data);
  ASSERT_NE(send, nullptr);
  for (int i = 0; i < 5; ++i) {
    const std::size_t before = kernel_.swallowed;
    std::size_t bytes = 0;
    EXPECT_EQ(connection().test(send, bytes), Outcome::kPending);
    EXPECT_GT(kernel_.swallowed, before);
    EXPECT_LE(kernel_.swallowed - before, 3 * (kMostPerCall + kMiB)) << "a chunk that was begun is finished";
    clock_.advance(seconds(1));
  }
  EXPECT_EQ(connection().error(), nullptr) << test::why_failed(connection());
}

TEST_F(BoundedCalls, ReadOfAStreamThatBreaksOnlyWhatHasCome) {
  kernel_.flooded = kernel_.broken = kernel_.accepted;
  kernel_.unread_pings = 100'000;
  const std::array<std::byte, 10> data{};
  Request* send = connection().post_send(data);
  std::size_t bytes = 0;
  // Once to see whether the peer has closed it, and once when it is given up.
  EXPECT_EQ(read_by([&] { connection().test(send, bytes); }), 200'000U);
  EXPECT_EQ(connection().statistics().live_streams, 0U);
}

TEST_F(BoundedCalls, TakeOverOnlySoManyStreamsThatThePeerOpens) {
  constexpr std::uint32_t kStreams = 100;
  std::vector<Descriptor> sockets;
  bootstrap::Hello hello = peer_->hello;
  hello.purpose = bootstrap::Purpose::kRejoin;
  hello.stream = 1;
  hello.streams = 2;
  for (hello.epoch = 1; hello.epoch <= kStreams; ++hello.epoch) {
    sockets.push_back(test::connected_to(*peer_->listener));
    random_bytes(hello.nonce);
    const auto reply = test::shake_hands(sockets.back(), hello, [&] { peer_->listener->accept(); });
    ASSERT_EQ(reply.status, bootstrap::HandshakeStatus::kOk);
  }
  const auto taken = [&] { return connection().statistics().breaks + 1; };  // each replaces the one before
  clock_.advance(seconds(1));
  connection().progress();
  EXPECT_EQ(taken(), kMostStreams);
  clock_.advance(seconds(1));
  connection().progress();
  EXPECT_EQ(taken(), kStreams);
  EXPECT_EQ(connection().error(), nullptr) << test::why_failed(connection());
}

}  // namespace
}  // namespace tombolo::transport::tcp
