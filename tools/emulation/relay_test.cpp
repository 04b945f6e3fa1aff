// A relay between two datagram sockets in place of its TAP devices; tests/netns/relay_test.cpp has real ones.
#include "tools/emulation/relay.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <functional>
#include <string>
#include <thread>

namespace tombolo::emulation {
namespace {

struct Ends {
  Descriptor relay, test;
};

/// The relay's end does not block, as a TAP device; the test's gives up a read after 20 s.
Ends make_ends(int type) {
  int both[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, both), 0);
  ::fcntl(both[0], F_SETFL, O_NONBLOCK);
  const timeval patience{20, 0};
  ::setsockopt(both[1], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  return {Descriptor(both[0]), Descriptor(both[1])};
}

class RelayBetweenSockets : public ::testing::Test {
 protected:
  ~RelayBetweenSockets() override { stop(); }

  void start(const LineOptions& options) {
    thread_ = std::thread([this, options] {
      run_relay(first_.relay, second_.relay, orders_.relay, options, options.bits_per_second);
    });
  }
  void stop() {
    orders_.test.reset();
    if (thread_.joinable()) thread_.join();
  }
  static std::string frame(char mark, std::size_t bytes = 100) {
    return std::string(kFrameHeader, '\0') + std::string(bytes, mark);
  }
  static void put(const Ends& at, const std::string& bytes) {
    ASSERT_EQ(::send(at.test.get(), bytes.data(), bytes.size(), 0), std::ssize(bytes));
  }
  static std::string take(const Ends& at, int flags = 0) {
    std::string bytes(kMostFrame, '\0');
    const ssize_t got = ::recv(at.test.get(), bytes.data(), bytes.size(), flags);
    bytes.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    return bytes;
  }
  RelayReport order(RelayOrder what) const {
    RelayReport report;
    EXPECT_EQ(::send(orders_.test.get(), &what, sizeof what, 0), static_cast<ssize_t>(sizeof what));
    EXPECT_EQ(::recv(orders_.test.get(), &report, sizeof report, 0), static_cast<ssize_t>(sizeof report));
    return report;
  }
  /// Asks until the relay has counted this.
  RelayReport report_with(const std::function<bool(const RelayReport&)>& counted) const {
    const Deadline deadline = Deadline::after(std::chrono::seconds(60));
    RelayReport report = order(RelayOrder::kReport);
    while (!counted(report) && !deadline.passed() && !HasFailure()) report = order(RelayOrder::kReport);
    EXPECT_TRUE(counted(report));
    return report;
  }

  Ends first_ = make_ends(SOCK_DGRAM), second_ = make_ends(SOCK_DGRAM), orders_ = make_ends(SOCK_SEQPACKET);
  std::thread thread_;
};

constexpr LineOptions kFastLine{1e9, {}, 0, 0, 1};

TEST_F(RelayBetweenSockets, CarriesFramesBothWaysInOrder) {
  start(kFastLine);
  for (const char mark : {'a', 'b', 'c'}) put(first_, frame(mark));
  put(second_, frame('x', 60));
  for (const char mark : {'a', 'b', 'c'}) EXPECT_EQ(take(second_), frame(mark));
  EXPECT_EQ(take(first_), frame('x', 60));
  const RelayReport report = report_with([](const RelayReport& each) {
    return each.directions[0].packets == 3 && each.directions[1].packets == 1;
  });
  EXPECT_EQ(report.directions[0].bytes, 300U) << "without the headers of the device";
  EXPECT_EQ(report.directions[1].bytes, 60U);
  EXPECT_GT(report.processor_seconds, 0);
}

TEST_F(RelayBetweenSockets, DropsWhatComesWhileItIsCut) {
  start(kFastLine);
  EXPECT_EQ(order(RelayOrder::kCut).directions[0].cut, 0U);
  put(first_, frame('a'));
  put(second_, frame('b'));
  report_with(
      [](const RelayReport& each) { return each.directions[0].cut == 1 && each.directions[1].cut == 1; });
  EXPECT_EQ(take(second_, MSG_DONTWAIT), "");
  order(RelayOrder::kRestore);
  put(first_, frame('c'));
  EXPECT_EQ(take(second_), frame('c'));
}

TEST_F(RelayBetweenSockets, LosesAtRandomWhatTheLineLoses) {
  start({1e9, {}, 1, 0, 1});
  for (int i = 0; i < 10; ++i) put(first_, frame('a'));
  const RelayReport report =
      report_with([](const RelayReport& each) { return each.directions[0].lost == 10; });
  EXPECT_EQ(report.directions[0].packets, 0U);
  EXPECT_EQ(take(second_, MSG_DONTWAIT), "");
}

TEST_F(RelayBetweenSockets, AFrameThatTheOtherSideRefusesIsLostAndNoMore) {
  start(kFastLine);
  second_.test.reset();
  put(first_, frame('a'));
  report_with([](const RelayReport& each) { return each.directions[0].packets == 1; });
  put(first_, frame('b'));
  report_with([](const RelayReport& each) { return each.directions[0].packets == 2; });
}

TEST_F(RelayBetweenSockets, EndsWithItsOwner) {
  start(kFastLine);
  order(RelayOrder::kReport);
  stop();  // waits for it
  EXPECT_FALSE(thread_.joinable());
}

}  // namespace
}  // namespace tombolo::emulation
