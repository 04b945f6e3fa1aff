// Bytes that are damaged on their way, between the peer's kernel and this one's.
#include <gtest/gtest.h>

#include <map>

#include "base/randomized_test.h"
#include "transport/bootstrap/handshake.h"
#include "transport/testing/altering_proxy.h"
#include "transport/testing/test_messages.h"

namespace tombolo::transport::tcp {
namespace {

/// Two ends, and a proxy between them that damages some of the streams which come after each other.
class Damage : public testing::Test {
 protected:
  static constexpr std::size_t kMessage = 3'000'000;

  RouterOptions options_of(const std::string& host, const TcpOptions& tcp) {
    RouterOptions options = test::router_options(host, tcp);
    options.log = log_.of(host);
    return options;
  }
  std::string log() { return log_.text(); }

  void connect_through(test::AlteringProxy::Alter alter, const TcpOptions& tcp) {
    left_ = std::make_unique<Router>(options_of("left", tcp));
    right_ = std::make_unique<Router>(options_of("right", tcp));
    auto listener = right_->listen();
    proxy_ = std::make_unique<test::AlteringProxy>(listener->endpoint().offers[0].port, std::move(alter));
    auto connecting = left_->connect(proxy_->in_front_of(listener->endpoint()), {});
    for (auto deadline = test::soon(); !(near_ && far_) && !deadline.passed();) {
      if (!near_) near_ = connecting->poll();
      if (!far_) far_ = listener->accept();
      if (!(near_ && far_)) test::wait_on(*connecting, *listener);
    }
    ASSERT_TRUE(near_ && far_) << log();
  }

  /// Sends messages from the near end to the far one, and compares every byte.
  void transfer(std::size_t messages) {
    std::mt19937_64 random(1);
    for (std::size_t i = 0; i < messages; ++i) {
      const auto data = test::random_data(random, kMessage);
      std::vector<std::byte> buffer(kMessage);
      test::expect_carried(*near_, *far_, data, buffer);
      if (HasFatalFailure()) FAIL() << "message " << i << "\n" << log();
    }
  }

  /// Messages both ways at the same time, several under way, each compared. Most are so small that nearly
  /// every other byte is a header's.
  void converse(std::uint64_t seed, std::size_t messages) {
    struct Way {
      Connection *from, *to;
      std::vector<std::vector<std::byte>> data, buffers;
      std::vector<Request*> sends, receives;
      std::size_t sent = 0, received = 0, posted = 0, listened = 0;
    };
    std::mt19937_64 random(seed);
    std::array<Way, 2> ways{Way{near_.get(), far_.get(), {}, {}, {}, {}},
                            Way{far_.get(), near_.get(), {}, {}, {}, {}}};
    for (Way& way : ways) {
      for (std::size_t i = 0; i < messages; ++i) {
        const std::size_t size = random() % 200 == 0 ? random() % 60'000 : random() % 100;
        way.data.push_back(test::random_data(random, size));
        way.buffers.emplace_back(size);
      }
      way.sends.resize(messages);
      way.receives.resize(messages);
    }
    const auto step = [&](Way& way) {
      // Now the sender is ahead, now the receiver.
      const std::size_t ahead = 1 + random() % 24;
      while (way.posted < messages && way.posted < way.sent + ahead) {
        Request* const send = way.from->post_send(way.data[way.posted]);
        if (send == nullptr) break;  // too much is not acknowledged yet
        way.sends[way.posted++] = send;
      }
      const std::size_t listens = 1 + random() % 24;
      while (way.listened < messages && way.listened < way.received + listens) {
        way.receives[way.listened] = way.to->post_receive(way.buffers[way.listened]);
        ++way.listened;
      }
      std::size_t bytes = 0;
      for (; way.sent < way.posted; ++way.sent) {
        const Outcome outcome = way.from->test(way.sends[way.sent], bytes);
        ASSERT_NE(outcome, Outcome::kFailed) << way.from->error()->what() << "\n" << log();
        if (outcome == Outcome::kPending) break;
      }
      for (; way.received < way.listened; ++way.received) {
        const Outcome outcome = way.to->test(way.receives[way.received], bytes);
        ASSERT_NE(outcome, Outcome::kFailed) << way.to->error()->what() << "\n" << log();
        if (outcome == Outcome::kPending) break;
        ASSERT_EQ(bytes, way.data[way.received].size()) << "message " << way.received;
        ASSERT_TRUE(way.data[way.received] == way.buffers[way.received]) << "message " << way.received << "\n"
                                                                         << log();
      }
    };
    const auto over = [&](const Way& way) { return way.sent == messages && way.received == messages; };
    for (auto deadline = test::soon(); !(over(ways[0]) && over(ways[1]));) {
      ASSERT_FALSE(deadline.passed()) << log();
      for (Way& way : ways) step(way);
      if (HasFatalFailure()) return;
    }
  }

  test::LogBook log_;
  std::unique_ptr<Router> left_, right_;
  std::unique_ptr<test::AlteringProxy> proxy_;
  std::unique_ptr<Connection> near_, far_;
};

// What the connecting end sends before the first chunk's payload.
constexpr std::uint64_t kBeforePayload = bootstrap::Hello::kBytes + bootstrap::Proof::kBytes + kHeaderBytes;

TEST_F(Damage, OfAChunkIsFoundByItsChecksumAndTheChunkGoesAgain) {
  TcpOptions tcp;
  tcp.streams = 1;
  tcp.checksums = true;
  // The first three streams break, each in the middle of its first chunk.
  connect_through(
      [](std::size_t stream, bool forward, std::uint64_t offset, std::span<std::byte> bytes) {
        if (forward && stream < 3) test::flip_bit(kBeforePayload + 5000 + stream, offset, bytes);
      },
      tcp);
  transfer(3);
  EXPECT_EQ(proxy_->streams(), 4u) << log();
  EXPECT_EQ(log_.count("broke (a checksum did not match) and is back"), 3u) << log();
  EXPECT_EQ(far_->statistics().breaks, 3u);
  EXPECT_EQ(far_->statistics().rejoins, 3u);
  EXPECT_EQ(near_->statistics().rejoins, 3u);
  EXPECT_GE(near_->statistics().replayed, 3u);
  EXPECT_EQ(far_->statistics().bytes_received, 3 * kMessage);
}

TEST_F(Damage, OfOneStreamAmongSeveralIsNamedWithItsNics) {
  TcpOptions tcp;
  tcp.streams = 3;
  tcp.checksums = true;
  connect_through(
      [](std::size_t stream, bool forward, std::uint64_t offset, std::span<std::byte> bytes) {
        if (forward && stream == 1) test::flip_bit(kBeforePayload + 200, offset, bytes);
      },
      tcp);
  transfer(3);
  EXPECT_EQ(log_.count("of 3 (eth0 -> eth0) broke: a checksum did not match"), 1u) << log();
  EXPECT_EQ(far_->statistics().breaks, 1u);
}

/// Flips one bit in each direction of every stream, wherever it falls, until `most` are flipped; also in the
/// handshake of a stream that is made anew, but not in those of the first: without them there is no
/// connection yet.
class Flips {
 public:
  Flips(std::uint64_t seed, std::size_t first_streams, std::size_t most)
      : random_(seed), first_streams_(first_streams), left_(most) {}
  void operator()(std::size_t stream, bool forward, std::uint64_t offset, std::span<std::byte> bytes) {
    auto [found, is_new] = at_.try_emplace({stream, forward}, 0);
    std::uint64_t& at = found->second;
    if (is_new) {
      const std::uint64_t handshake = forward ? bootstrap::Hello::kBytes + bootstrap::Proof::kBytes
                                              : bootstrap::Challenge::kBytes + bootstrap::Reply::kBytes;
      const bool in_handshake = stream >= first_streams_ && random_() % 4 == 0;
      at = in_handshake ? random_() % handshake : handshake + random_() % kWithin;
    }
    if (left_ == 0 || at < offset || at >= offset + bytes.size()) return;
    bytes[at - offset] ^= static_cast<std::byte>(1 << random_() % 8);
    --left_;
  }

 private:
  static constexpr std::uint64_t kWithin = 60'000;

  std::mt19937_64 random_;
  std::size_t first_streams_, left_;
  std::map<std::pair<std::size_t, bool>, std::uint64_t> at_;
};

TEST_F(Damage, AnywhereInAStreamEndsWithEveryByteRight) {
  const unsigned seed = test_seed();
  for (const std::size_t streams : {1, 3}) {
    TcpOptions tcp;
    tcp.streams = static_cast<int>(streams);
    tcp.checksums = true;
    connect_through(Flips(seed, streams, 20), tcp);
    if (HasFatalFailure()) return;
    converse(seed, 4000);
    if (HasFatalFailure()) return;
    EXPECT_GE(near_->statistics().breaks, 3u) << log();
    near_.reset();
    far_.reset();
  }
}

TEST_F(Damage, OfAHeaderIsFoundEvenWithoutChecksumsOfPayload) {
  TcpOptions tcp;
  tcp.streams = 1;
  // The length of the first chunk.
  connect_through(
      [](std::size_t stream, bool forward, std::uint64_t offset, std::span<std::byte> bytes) {
        if (forward && stream == 0) test::flip_bit(kBeforePayload - kHeaderBytes + 4, offset, bytes);
      },
      tcp);
  transfer(2);
  EXPECT_EQ(log_.count("broke (a checksum did not match) and is back"), 1u) << log();
}

// So that the tests above show something: it is the checksum that finds the damage.
TEST_F(Damage, WithoutChecksumsGoesUnnoticed) {
  TcpOptions tcp;
  tcp.streams = 1;
  connect_through(
      [](std::size_t, bool forward, std::uint64_t offset, std::span<std::byte> bytes) {
        if (forward) test::flip_bit(kBeforePayload + 5000, offset, bytes);
      },
      tcp);
  std::vector<std::byte> data(kMessage), buffer(kMessage);
  Request* receive = far_->post_receive(buffer);
  near_->post_send(data);
  std::size_t bytes = 0;
  ASSERT_EQ(test::finish(*far_, receive, bytes, near_.get()), Outcome::kDone);
  EXPECT_EQ(std::ranges::count(buffer, std::byte{0x10}), 1);
  EXPECT_EQ(buffer[5000], std::byte{0x10});
}

}  // namespace
}  // namespace tombolo::transport::tcp
