#include "tests/simulation/pretended/pretended_kernel.h"

#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cerrno>

namespace tombolo::simulation {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class PretendedKernelTest : public testing::Test {
 protected:
  PretendedKernelTest() { clock_.advance(seconds(1000)); }
  static sockaddr_in address(unsigned host, std::uint16_t port) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_addr.s_addr = htonl(address_of(host, 0));
    in.sin_port = htons(port);
    return in;
  }
  int bound(unsigned host, std::uint16_t port) {
    kernel_.set_host(host);
    const int socket = kernel_.socket(AF_INET, SOCK_STREAM, 0);
    const auto own = address(host, port);
    EXPECT_EQ(kernel_.bind(socket, reinterpret_cast<const sockaddr*>(&own), sizeof own), 0);
    return socket;
  }
  /// A connection from host 0 to host 1.
  void connect() {
    listener_ = bound(1, 7000);
    ASSERT_EQ(kernel_.listen(listener_, 8), 0);
    here_ = bound(0, 0);
    const auto to = address(1, 7000);
    ASSERT_EQ(kernel_.connect(here_, reinterpret_cast<const sockaddr*>(&to), sizeof to), -1);
    ASSERT_EQ(errno, EINPROGRESS);
    pass(milliseconds(1));
    kernel_.set_host(1);
    there_ = kernel_.accept4(listener_, nullptr, nullptr, 0);
    ASSERT_GE(there_, 0);
  }
  void pass(Duration time) {
    clock_.advance(time);
    network_.settle();
  }
  short polled(int descriptor, short events) {
    pollfd one{descriptor, events, 0};
    kernel_.poll(&one, 1, 0);
    return one.revents;
  }
  int watch(int descriptor, std::uint32_t events) {
    const int epoll = kernel_.epoll_create1(0);
    epoll_event event{};
    event.events = events;
    EXPECT_EQ(kernel_.epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event), 0);
    return epoll;
  }
  std::uint32_t events(int epoll) {
    epoll_event event{};
    return kernel_.epoll_wait(epoll, &event, 1, 0) == 1 ? event.events : 0;
  }

  FakeClock clock_;
  std::mt19937_64 random_{1};
  Network network_{clock_, random_};
  PretendedKernel kernel_{clock_, network_, random_,
                          [this](std::span<const pollfd>, TimePoint) { clock_.advance(milliseconds(1)); }};
  int listener_ = -1, here_ = -1, there_ = -1;
};

TEST_F(PretendedKernelTest, BytesGoFromOneHostToTheOther) {
  connect();
  kernel_.set_host(0);
  EXPECT_EQ(kernel_.send(here_, "hello", 5, 0), 5);
  EXPECT_EQ(kernel_.moved(0), 2u);  // with the connection
  EXPECT_EQ(polled(there_, POLLIN), 0);
  pass(milliseconds(1));
  EXPECT_EQ(polled(there_, POLLIN), POLLIN);
  kernel_.set_host(1);
  char text[6] = "";
  EXPECT_EQ(kernel_.recv(there_, text, 5, 0), 5);
  EXPECT_STREQ(text, "hello");
  EXPECT_EQ(kernel_.recv(there_, text, 5, 0), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(PretendedKernelTest, AnInjectedErrorComesAsOftenAsItWasAskedFor) {
  connect();
  kernel_.set_host(0);
  kernel_.inject(0, Call::kSend, ENOBUFS, 2);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(kernel_.send(here_, "x", 1, 0), -1);
    EXPECT_EQ(errno, ENOBUFS);
  }
  EXPECT_EQ(kernel_.send(here_, "x", 1, 0), 1);
  EXPECT_EQ(network_.last_cut(), clock_.now());
}

TEST_F(PretendedKernelTest, AnInterruptedCallCutsNoStream) {
  connect();
  kernel_.set_host(0);
  kernel_.inject(0, Call::kSend, EINTR, 1);
  EXPECT_EQ(kernel_.send(here_, "x", 1, 0), -1);
  EXPECT_EQ(network_.last_cut(), TimePoint{});
}

TEST_F(PretendedKernelTest, ShortCallsMoveAPart) {
  connect();
  kernel_.set_short_calls(1);
  kernel_.set_host(0);
  const std::string text(1000, 'x');
  const ssize_t sent = kernel_.send(here_, text.data(), text.size(), 0);
  EXPECT_GT(sent, 0);
  EXPECT_LT(sent, 1000);
}

TEST_F(PretendedKernelTest, AnEdgeIsToldOnceALevelAgainAndAgain) {
  connect();
  const int edges = watch(there_, EPOLLIN | EPOLLET), levels = watch(there_, EPOLLIN);
  kernel_.set_host(0);
  kernel_.send(here_, "x", 1, 0);
  pass(milliseconds(1));
  EXPECT_EQ(events(edges), EPOLLIN);
  EXPECT_EQ(events(edges), 0u);
  EXPECT_EQ(events(levels), EPOLLIN);
  EXPECT_EQ(events(levels), EPOLLIN);
  kernel_.send(here_, "y", 1, 0);
  pass(milliseconds(1));
  EXPECT_EQ(events(edges), EPOLLIN);
}

TEST_F(PretendedKernelTest, ATimerIsReadyOnceItsTimeHasCome) {
  const int timer = kernel_.timerfd_create(CLOCK_MONOTONIC, 0);
  itimerspec at{};
  at.it_value.tv_sec = 2;
  kernel_.timerfd_settime(timer, 0, &at, nullptr);
  EXPECT_EQ(polled(timer, POLLIN), 0);
  ASSERT_TRUE(kernel_.next_timer().has_value());
  pass(seconds(2));
  EXPECT_EQ(polled(timer, POLLIN), POLLIN);
}

TEST_F(PretendedKernelTest, AProcessThatDiesClosesWhatItHad) {
  connect();
  kernel_.kill(1);
  pass(milliseconds(1));
  EXPECT_EQ(polled(here_, POLLIN | POLLRDHUP), POLLIN | POLLRDHUP);
  kernel_.set_host(1);
  EXPECT_EQ(kernel_.socket(AF_INET, SOCK_STREAM, 0), -1);
  EXPECT_EQ(kernel_.send(there_, "x", 1, 0), -1);
}

TEST_F(PretendedKernelTest, ItKnowsWhichDescriptorsAreLeft) {
  connect();
  for (const int one : {listener_, here_, there_}) EXPECT_EQ(kernel_.close(one), 0);
  EXPECT_EQ(kernel_.open_descriptors(), 0u);
  const int event = kernel_.eventfd(0, 0);
  EXPECT_EQ(kernel_.open_descriptors(), 1u);
  EXPECT_NE(kernel_.describe_open().find("event of host 1"), std::string::npos) << kernel_.describe_open();
  kernel_.close(event);
  EXPECT_EQ(kernel_.close(event), -1);
}

TEST_F(PretendedKernelTest, ADefectiveOneLosesAByte) {
  connect();
  kernel_.set_loses_bytes(true);
  kernel_.set_host(0);
  std::string text(2000, 'x');
  EXPECT_EQ(kernel_.send(here_, text.data(), text.size(), 0), 2000);
  pass(milliseconds(1));
  EXPECT_EQ(kernel_.recv(there_, text.data(), text.size(), 0), 1999);
}

}  // namespace
}  // namespace tombolo::simulation
