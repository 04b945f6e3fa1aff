// What strangers and a kernel that is short of everything can do to the streams of others.
#include "transport/bootstrap/half_open_streams.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <string>
#include <vector>

#include "transport/backend.h"
#include "transport/bootstrap/way.h"
#include "transport/sockets/socket.h"
#include "transport/testing/forwarding_kernel.h"
#include "transport/testing/short_memory.h"
#include "transport/testing/test_support.h"

namespace tombolo::transport::bootstrap {
namespace {

/// Counts what is asked of it, and fails where it is told to.
class ShortKernel final : public test::ForwardingKernel {
 public:
  int accept4(int socket, sockaddr* address, socklen_t* length, int flags) noexcept override {
    if (accept_error != 0) {
      errno = accept_error;
      return -1;
    }
    if (accepted >= most) {
      errno = EAGAIN;
      return -1;
    }
    const int got = ForwardingKernel::accept4(socket, address, length, flags);
    if (got >= 0) ++accepted;
    return got;
  }
  int epoll_ctl(int epoll, int operation, int descriptor, epoll_event* event) noexcept override {
    if (operation == EPOLL_CTL_ADD && watch_error != 0) {
      errno = watch_error;
      return -1;
    }
    return ForwardingKernel::epoll_ctl(epoll, operation, descriptor, event);
  }
  ssize_t getrandom(void* data, std::size_t size, unsigned flags) noexcept override {
    if (random_error != 0) {
      errno = random_error;
      return -1;
    }
    return ForwardingKernel::getrandom(data, size, flags);
  }
  ssize_t recv(int socket, void* data, std::size_t size, int flags) noexcept override {
    const ssize_t got = ForwardingKernel::recv(socket, data, size, flags);
    if (got > 0 && (flags & MSG_PEEK) == 0) received += static_cast<std::size_t>(got);
    return got;
  }
  std::atomic<int> accepted{0}, most{INT_MAX}, accept_error{0}, watch_error{0}, random_error{0};
  std::atomic<std::size_t> received{0};
};

/// Of this process.
int listening_sockets() {
  int count = 0;
  for (int descriptor = 0; descriptor < 1024; ++descriptor) {
    int listens = 0;
    socklen_t size = sizeof listens;
    if (::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0) count += listens;
  }
  return count;
}

class HalfOpen : public testing::Test {
 protected:
  HalfOpen() {
    auto local = std::make_shared<Local>();
    local->host = "here";
    local->idle_timeout = std::chrono::seconds(60);
    local->log = log_.of("here");
    local->clock = &clock_;
    Endpoint endpoint;
    Offer offer;
    offer.nic = "lo";
    offer.address = "127.0.0.1";
    endpoint.offers = {offer};
    end_ = streams_.open(local, endpoint);
  }
  std::vector<Descriptor> strangers(std::size_t count) {
    const auto address = sockets::SocketAddress::parse("127.0.0.1", end_->endpoint.offers[0].port);
    std::vector<Descriptor> made;
    for (std::size_t i = 0; i < count; ++i) {
      made.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      EXPECT_EQ(::connect(made.back().get(), address.get(), address.length), 0);
    }
    return made;
  }
  bool ready() {
    pollfd handle{streams_.wait_handle(), POLLIN, 0};
    return ::poll(&handle, 1, 0) == 1;
  }
  void progress_until_nothing_is_left() {
    for (const auto deadline = test::soon(); ready() && !deadline.passed();) streams_.progress();
  }

  ShortKernel kernel_;
  KernelInPlace in_place_{kernel_};
  FakeClock clock_;
  test::LogBook log_;
  Registrations registrations_;
  sockets::ClosingSockets refused_{
      std::chrono::milliseconds(10), Clock::steady(), {4, sockets::ClosingSockets::WhenFull::kCloseOldest}};
  static constexpr std::uint64_t kProcess = 4711;
  HalfOpenStreams streams_{kProcess, registrations_, refused_, clock_};
  std::shared_ptr<const LocalEnd> end_;
};

TEST_F(HalfOpen, OneCallAcceptsOnlySoMany) {
  const auto many = strangers(3 * HalfOpenStreams::kMostAccepted);
  int before = 0;
  for (int call = 0; call < 3; ++call) {
    streams_.progress();
    EXPECT_LE(kernel_.accepted - before, HalfOpenStreams::kMostAccepted);
    EXPECT_GT(kernel_.accepted, before);
    before = kernel_.accepted;
  }
  progress_until_nothing_is_left();
  EXPECT_EQ(kernel_.accepted, 3 * HalfOpenStreams::kMostAccepted) << "the others' turn comes";
}

TEST_F(HalfOpen, AStrangerThatSendsWithoutEndIsReadOnlySoFarAndStillLearnsWhy) {
  const auto one = strangers(1);
  // A hello of another version, and as much as fits behind it.
  Hello hello;
  auto bytes = hello.encode();
  bytes[4] = std::byte{0xee};
  ASSERT_EQ(send(one[0].get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), std::ssize(bytes));
  const std::string much(1 << 20, 'x');
  std::size_t sent = 0;
  for (ssize_t some = 0;
       (some = send(one[0].get(), much.data(), much.size(), MSG_NOSIGNAL | MSG_DONTWAIT)) > 0;)
    sent += static_cast<std::size_t>(some);
  ASSERT_GT(sent, 256u * 1024);
  for (const auto deadline = test::soon(); log_.count("protocol version") == 0 && !deadline.passed();) {
    kernel_.received = 0;
    streams_.progress();
    EXPECT_LE(kernel_.received, 65u * 1024);
  }
  EXPECT_EQ(log_.count("it speaks protocol version"), 1u) << log_.text();
  std::vector<std::byte> answer(Challenge::kBytes);
  ASSERT_EQ(recv(one[0].get(), answer.data(), answer.size(), MSG_WAITALL), std::ssize(answer));
  EXPECT_EQ(Challenge::decode(answer).status, HandshakeStatus::kOtherVersion);
}

TEST_F(HalfOpen, AStreamThatTheKernelCannotWatchIsDroppedAloneWithOneLine) {
  kernel_.watch_error = ENOSPC;
  const auto dropped = strangers(1);
  while (kernel_.accepted == 0) streams_.progress();
  EXPECT_EQ(log_.count("epoll_ctl: "), 1u) << log_.text();
  char byte = 0;
  EXPECT_EQ(recv(dropped[0].get(), &byte, 1, 0), 0) << "it is closed";
  kernel_.watch_error = 0;
  const auto next = strangers(1);
  ASSERT_EQ(send(next[0].get(), "GET / HTTP", 10, MSG_NOSIGNAL), 10);
  for (const auto deadline = test::soon(); log_.count("no Tombolo handshake") == 0 && !deadline.passed();)
    streams_.progress();
  EXPECT_EQ(log_.count("no Tombolo handshake"), 1u) << log_.text();
}

TEST_F(HalfOpen, AcceptingGoesOnAfterAPauseAlsoWhereTheKernelCannotWatchAtFirst) {
  const auto waiting = strangers(1);
  for (const int error : {EMFILE, ENFILE, ENOBUFS, ENOMEM}) {
    kernel_.accept_error = error;
    clock_.advance(std::chrono::seconds(1));
    streams_.progress();
    EXPECT_FALSE(ready()) << "nobody would get to sleep";
  }
  kernel_.accept_error = 0;
  kernel_.watch_error = ENOMEM;
  clock_.advance(std::chrono::seconds(1));
  streams_.progress();
  EXPECT_EQ(kernel_.accepted, 0);
  kernel_.watch_error = 0;
  clock_.advance(std::chrono::seconds(1));
  streams_.progress();
  EXPECT_EQ(kernel_.accepted, 1);
  EXPECT_EQ(log_.count("accept on NIC lo (127.0.0.1) failed"), 4u) << log_.text();
}

TEST_F(HalfOpen, DescriptorsThatComeAndGoDoNotFillTheLog) {
  const std::string line = "accept on NIC lo (127.0.0.1) failed";
  const auto waiting = strangers(20);
  const auto let_in = [&](int how_many) {
    for (int i = 0; i < how_many; ++i) {
      kernel_.accept_error = EMFILE;
      clock_.advance(std::chrono::milliseconds(200));
      streams_.progress();
      kernel_.accept_error = 0;
      kernel_.most = kernel_.accepted + 1;
      clock_.advance(std::chrono::milliseconds(200));
      streams_.progress();
    }
  };
  let_in(19);
  EXPECT_EQ(kernel_.accepted, 19);
  EXPECT_EQ(log_.count(line), 5u) << log_.text();
  clock_.advance(std::chrono::seconds(10));
  let_in(1);
  EXPECT_EQ(log_.count(line), 6u) << log_.text();
  EXPECT_EQ(log_.count("(14 more warnings like this one were left out before it)"), 1u) << log_.text();
}

TEST_F(HalfOpen, StrangersWhoComeWhileMemoryIsShortDoNotFillTheLog) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's operator new always has memory";
  for (int i = 0; i < 20; ++i) {
    const auto one = strangers(1);
    for (const auto deadline = test::soon(); kernel_.accepted == i && !deadline.passed();) {
      const test::ShortMemory once(1);
      streams_.progress();
    }
    char byte = 0;
    EXPECT_LE(recv(one[0].get(), &byte, 1, 0), 0) << "it is closed";
  }
  EXPECT_EQ(kernel_.accepted, 20);
  EXPECT_EQ(log_.count("dropped a connection to NIC lo (127.0.0.1): std::bad_alloc"), 5u) << log_.text();
}

// It may be no std::exception, and it may come from any of the lines.
TEST_F(HalfOpen, WhateverTheLogsSinkThrowsCostsItsLineAlone) {
  int lines = 0;
  auto local = std::make_shared<Local>(*end_->local);
  local->log = Log(LogLevel::kInfo, [&](LogLevel, std::string_view) {
    ++lines;
    throw 42;
  });
  Endpoint endpoint = end_->endpoint;
  streams_.leave(*end_);
  end_ = streams_.open(local, endpoint);
  const auto closed = [&](const Descriptor& socket) {
    char byte = 0;
    for (const auto deadline = test::soon(); !deadline.passed();) {
      streams_.progress();
      if (recv(socket.get(), &byte, 1, MSG_DONTWAIT) == 0 || errno == ECONNRESET) return true;
    }
    return false;
  };
  auto many = strangers(3);
  for (const std::size_t one : {0U, 1U})
    ASSERT_EQ(send(many[one].get(), "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 18);
  EXPECT_TRUE(closed(many[0]));
  EXPECT_TRUE(closed(many[1]));
  EXPECT_EQ(lines, 2);
  kernel_.accept_error = EMFILE;
  const auto later = strangers(1);
  for (const auto deadline = test::soon(); lines < 3 && !deadline.passed();) streams_.progress();
  kernel_.accept_error = 0;
  clock_.advance(std::chrono::seconds(1));
  for (const auto deadline = test::soon(); kernel_.accepted < 4 && !deadline.passed();) streams_.progress();
  clock_.advance(std::chrono::seconds(11));
  EXPECT_TRUE(closed(many[2])) << "its handshake takes too long";
  EXPECT_TRUE(closed(later[0]));
  EXPECT_EQ(lines, 5);
  streams_.leave(*end_);
}

TEST_F(HalfOpen, WhatAStreamThrowsEndsItAlone) {
  // The challenge's nonce cannot be had, of which the handshake throws.
  auto inbox = std::make_shared<Inbox>();
  struct Tcp final : Backend {
    Carrier carrier() const noexcept override { return Carrier::kTcp; }
    std::unique_ptr<Connecting> connect(std::shared_ptr<Acceptor>, Way) override { return nullptr; }
    std::unique_ptr<Connecting> accept(std::shared_ptr<Acceptor>, AuthenticatedStream) override {
      return nullptr;
    }
  };
  auto local = std::make_shared<Local>(*end_->local);
  local->backends = {std::make_shared<Tcp>()};
  const auto with_tcp = streams_.open(local, end_->endpoint);
  Hello hello;
  hello.process = kProcess;
  hello.listener = registrations_.open_listener(with_tcp, inbox);
  const auto one = strangers(1);
  const auto bytes = hello.encode();
  kernel_.random_error = EIO;
  ASSERT_EQ(send(one[0].get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), std::ssize(bytes));
  for (const auto deadline = test::soon(); log_.count("dropped a connection") == 0 && !deadline.passed();)
    streams_.progress();
  EXPECT_EQ(log_.count("dropped a connection"), 1u) << log_.text();
  char byte = 0;
  EXPECT_LE(recv(one[0].get(), &byte, 1, 0), 0);
  streams_.leave(*with_tcp);
}

TEST_F(HalfOpen, ARouterThatLeavesTakesItsHandshakesAlongAndTheOthersStay) {
  test::LogBook other_log;
  auto local = std::make_shared<Local>(*end_->local);
  local->log = other_log.of("other");
  const auto other = streams_.open(local, end_->endpoint);
  EXPECT_EQ(other->endpoint.offers[0].port, end_->endpoint.offers[0].port) << "they share the port";
  const auto some = strangers(2);
  progress_until_nothing_is_left();
  streams_.leave(*end_);
  clock_.advance(std::chrono::seconds(11));
  streams_.progress();
  EXPECT_EQ(other_log.count("its handshake took too long"), 2u) << "who listens there still says so";
  EXPECT_EQ(log_.text(), "");
  const int listening = listening_sockets();
  streams_.leave(*other);
  EXPECT_EQ(listening_sockets(), listening - 1);
}

}  // namespace
}  // namespace tombolo::transport::bootstrap
