#include "transport/sockets/closing_sockets.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/randomized_test.h"
#include "transport/testing/forwarding_kernel.h"
#include "transport/testing/socket_pair.h"
#include "transport/testing/test_support.h"

namespace tombolo::transport::sockets {
namespace {

TEST(ClosingSockets, WhatWasSentArrivesThoughThePeersBytesWereNotRead) {
  ClosingSockets closing(std::chrono::seconds(60));
  auto [near, far] = test::tcp_pair();
  const std::string last = "the last word";
  ASSERT_EQ(send(far.get(), "unread", 6, 0), 6);
  ASSERT_EQ(send(near.get(), last.data(), last.size(), 0), std::ssize(last));
  closing.add(std::move(near));
  std::string got(100, ' ');
  ASSERT_EQ(recv(far.get(), got.data(), got.size(), 0), std::ssize(last));
  EXPECT_EQ(got.substr(0, last.size()), last);
  EXPECT_EQ(recv(far.get(), got.data(), got.size(), 0), 0) << "ended, not reset";
}

TEST(ClosingSockets, WhatThePeersKernelHasNoRoomForArrivesLateWithTheLastWordsAndNoReset) {
  FakeClock clock;
  auto closing = std::make_unique<ClosingSockets>(std::chrono::seconds(60), clock);
  auto [near, far] = test::tcp_pair();
  std::mt19937_64 random(test_seed(3));
  const auto text = test::random_data(random, 32 << 20);
  std::size_t sent = 0;
  for (ssize_t some = 0; (some = send(near.get(), text.data() + sent, text.size() - sent, MSG_DONTWAIT)) > 0;)
    sent += static_cast<std::size_t>(some);
  ASSERT_LT(sent + 1000, text.size()) << "the kernels took all of it";
  closing->add(std::move(near), std::span(text).subspan(sent, 1000));
  sent += 1000;
  // Longer than a socket is kept in any case.
  clock.advance(ClosingSockets::kShortest + Duration(1));
  ASSERT_TRUE(closing->progress());
  // It meets unread bytes where the peer acknowledges, as receivers do; at the end, too, it waits for all.
  // What the far kernel has is read by nobody yet when the near end is through: then acknowledgements meet
  // nobody.
  std::jthread end;
  bool gone = false;
  std::vector<std::byte> got(text.size());
  for (std::size_t at = 0; at < sent;) {
    const ssize_t some = recv(far.get(), got.data() + at, std::min<std::size_t>(sent - at, 100'000), 0);
    ASSERT_GT(some, 0) << "after " << at << " of " << sent << " bytes";
    at += static_cast<std::size_t>(some);
    if (!gone && send(far.get(), "ack", 3, MSG_NOSIGNAL) != 3) {
      gone = true;
      ASSERT_TRUE(errno == EPIPE || errno == ECONNRESET) << errno;
      ASSERT_TRUE(end.joinable()) << "gone after " << at << " of " << sent << " bytes";
    }
    if (!end.joinable()) end = std::jthread([&] { closing.reset(); });
  }
  EXPECT_EQ(std::memcmp(got.data(), text.data(), sent), 0);
  EXPECT_EQ(recv(far.get(), got.data(), 1, 0), 0) << "ended, not reset";
}

TEST(ClosingSockets, APeerThatClosedAltogetherIsNotWaitedFor) {
  FakeClock clock;
  ClosingSockets closing(std::chrono::seconds(60), clock);
  auto [near, far] = test::tcp_pair();
  ASSERT_EQ(shutdown(far.get(), SHUT_WR), 0);
  char got = 0;
  ASSERT_EQ(recv(near.get(), &got, 1, 0), 0);
  far.reset();
  // Meets a socket that is gone, and is answered by a reset.
  const auto word = std::as_bytes(std::span("word", 4));
  closing.add(std::move(near), word);
  for (const auto deadline = test::soon(); closing.progress();) ASSERT_FALSE(deadline.passed());
}

// A peer that sends without end is read by bounded pieces.
TEST(ClosingSockets, OneCallReadsOnlySoMuchOfAPeerThatGoesOnSending) {
  struct NeverDry final : test::ForwardingKernel {
    ssize_t recv(int socket, void* data, std::size_t size, int flags) noexcept override {
      const ssize_t got = ForwardingKernel::recv(socket, data, size, flags);
      if (counts && got > 0) bytes += static_cast<std::size_t>(got);
      // It never runs dry, as where the peer is faster.
      return counts && got < 0 && errno == EAGAIN && ++dry < 1000 ? 1 : got;
    }
    std::atomic<bool> counts{false};
    std::size_t bytes = 0;
    int dry = 0;
  } counting;
  const KernelInPlace in_place(counting);
  ClosingSockets closing(std::chrono::milliseconds(50));
  auto [near, far] = test::tcp_pair();
  const std::string much(4 << 20, 'x');
  while (send(far.get(), much.data(), much.size(), MSG_DONTWAIT) > 0) {
  }
  counting.counts = true;
  closing.add(std::move(near));
  EXPECT_LE(counting.bytes, 64u * 1024);
  EXPECT_LT(counting.dry, 10);
  counting.bytes = 0;
  closing.progress();
  EXPECT_LE(counting.bytes, 64u * 1024);
  EXPECT_LT(counting.dry, 20);
  counting.counts = false;
}

TEST(ClosingSockets, WhereStrangersFillItTheOldestGoesAtOnce) {
  FakeClock clock;
  ClosingSockets closing(std::chrono::seconds(60), clock, {2, ClosingSockets::WhenFull::kCloseOldest});
  std::vector<Descriptor> peers;
  for (int i = 0; i < 3; ++i) {
    auto [near, far] = test::tcp_pair();
    const std::string much(64 * 1024, 'x');
    while (send(near.get(), much.data(), much.size(), MSG_DONTWAIT) > 0) {
    }
    closing.add(std::move(near));  // the third does not wait, or this test would not end: time stands still
    peers.push_back(std::move(far));
  }
  EXPECT_TRUE(closing.progress());
  clock.advance(std::chrono::seconds(60));
  EXPECT_FALSE(closing.progress());
}

TEST(ClosingSockets, ManyWaitTogether) {
  FakeClock clock;
  ClosingSockets closing(ClosingSockets::kShortest, clock);
  std::vector<Descriptor> peers;
  for (int i = 0; i < 40; ++i) {
    auto [near, far] = test::tcp_pair();
    // A peer that reads nothing, and whose kernel takes no more: each is kept as long as one may be.
    const std::string much(64 * 1024, 'x');
    while (send(near.get(), much.data(), much.size(), MSG_DONTWAIT) > 0) {
    }
    closing.add(std::move(near));
    peers.push_back(std::move(far));
  }
  clock.advance(ClosingSockets::kShortest - Duration(1));
  ASSERT_TRUE(closing.progress()) << "none is kept";
  clock.advance(Duration(1));
  EXPECT_FALSE(closing.progress()) << "one waits for another";
}

/// Keeps one thread in the call that reads a socket.
class HeldReader final : public transport::test::ForwardingKernel {
 public:
  ssize_t recv(int socket, void* data, std::size_t size, int flags) noexcept override {
    if (std::this_thread::get_id() == held) {
      entered = true;
      while (!let_go) std::this_thread::yield();
    }
    return ForwardingKernel::recv(socket, data, size, flags);
  }
  std::atomic<std::thread::id> held;
  std::atomic<bool> entered{false}, let_go{false};
};

// A sweep over thousands of sockets takes tens of milliseconds, and each connection that closes has more.
TEST(ClosingSockets, WhoLeavesASocketWaitsForNoSweep) {
  HeldReader kernel;
  const KernelInPlace in_place(kernel);
  FakeClock clock;
  ClosingSockets closing(std::chrono::seconds(60), clock);
  std::vector<Descriptor> peers;
  const auto leave_one = [&] {
    auto [near, far] = test::tcp_pair();
    const std::string much(64 * 1024, 'x');
    while (send(near.get(), much.data(), much.size(), MSG_DONTWAIT) > 0) {
    }
    closing.add(std::move(near));
    peers.push_back(std::move(far));
  };
  leave_one();
  std::thread sweeper([&] {
    kernel.held = std::this_thread::get_id();
    EXPECT_TRUE(closing.progress());
  });
  const auto late = Deadline::after(std::chrono::seconds(20));
  while (!kernel.entered && !late.passed()) std::this_thread::yield();
  std::atomic<bool> left{false};
  std::thread other([&] {
    leave_one();
    left = true;
  });
  while (!left && !late.passed()) std::this_thread::yield();
  EXPECT_TRUE(left);
  kernel.let_go = true;
  sweeper.join();
  other.join();
  clock.advance(std::chrono::seconds(60));
  EXPECT_FALSE(closing.progress()) << "one was lost from sight";
}

}  // namespace
}  // namespace tombolo::transport::sockets
