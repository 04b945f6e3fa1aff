// Tests long and lossy links: round trip, rate, losses and cuts; that bytes arrive unchanged; and that no
// relay is left behind.
#include "tools/emulation/relay.h"

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <filesystem>
#include <thread>
#include <vector>

#include "tests/netns/on_host.h"
#include "tests/process/process_watch.h"
#include "tools/emulation/holder.h"

namespace tombolo::emulation {
namespace {

using tests::carry;
using tests::eventually;
using tests::is_running;
using tests::socket_on;
using tests::tcp_between;

std::unique_ptr<Emulation> start(const std::string& spec) {
  return Emulation::start(Spec::from_text(spec), {Mode::kNamespaces, {}});
}

bool ping(const Descriptor& from, const Descriptor& to) {
  char byte = 'p';
  return ::send(from.get(), &byte, 1, MSG_NOSIGNAL) == 1 && ::recv(to.get(), &byte, 1, 0) == 1 &&
         ::send(to.get(), &byte, 1, MSG_NOSIGNAL) == 1 && ::recv(from.get(), &byte, 1, 0) == 1;
}

// A lower bound that holds on any machine; tools/emulation/delay_line_test.cpp tests the exact times.
TEST(Relay, AddsTheRoundTripThatWasAskedFor) {
  auto emulation = start("two-clusters:hosts=2,rtt=20ms");
  auto [near, far] = tcp_between(*emulation, 0, 1, "");
  for (int i = 0; i < 10; ++i) {
    const TimePoint begin = Clock::steady().now();
    ASSERT_TRUE(ping(near, far));
    EXPECT_GE(Clock::steady().now() - begin, std::chrono::milliseconds(20));
  }
}

TEST(Relay, PassesNoMoreThanTheRateThatWasAskedFor) {
  auto emulation = start("two-clusters:hosts=2,rate=100mbit,rtt=10ms");
  auto [near, far] = tcp_between(*emulation, 0, 1, "");
  const double bits = carry(near, far, 2'000'000, 1);
  ASSERT_GT(bits, 0) << "wrong bytes";
  EXPECT_LT(bits, 1e8);
}

TEST(Relay, LosesSinglePacketsOfATcpStreamAndKeepsItsBytesRight) {
  auto emulation = start("two-clusters:hosts=2,rtt=2ms,loss=1%");
  auto [near, far] = tcp_between(*emulation, 0, 1, "");
  ASSERT_GT(carry(near, far, 16'000'000, 2), 0) << "wrong bytes";
  ASSERT_GT(carry(far, near, 4'000'000, 3), 0) << "wrong bytes";
  auto report = emulation->order_relay(0, RelayOrder::kReport);
  const LineCounters& there = report.directions[0];
  double sent = static_cast<double>(there.packets + there.lost);
  fmt::print("{} of {:.0f} packets lost, {} found the queue full\n", there.lost, sent, there.overflowed);
  EXPECT_GT(sent, 16e6 / 1448);  // segments, not super-packets
  EXPECT_NEAR(static_cast<double>(there.lost), 0.01 * sent, 7 * std::sqrt(0.01 * sent));
  EXPECT_GT(report.directions[1].lost, 0U);
}

TEST(Relay, LosesDatagramsAtTheRateAskedForAndNoOthers) {
  constexpr double kLoss = 0.02;
  constexpr std::uint64_t kBatch = 250, kBatches = 80;
  // The kernels themselves send some packets too, for a few seconds: address and router requests.
  constexpr std::uint64_t kOthers = 40;
  auto emulation = start("two-clusters:hosts=2,rtt=2ms,loss=2%");
  Descriptor near = socket_on(*emulation, 0, SOCK_DGRAM | SOCK_NONBLOCK);
  Descriptor far = socket_on(*emulation, 1, SOCK_DGRAM | SOCK_NONBLOCK);
  sockaddr_in there = tests::bind_to(far, emulation->address("b0", ""));
  ASSERT_EQ(::connect(near.get(), reinterpret_cast<sockaddr*>(&there), sizeof there), 0);
  // Packets of the address resolution may be lost too; the kernel repeats them.
  std::uint64_t word = ~0ULL;
  ASSERT_TRUE(eventually([&] {
    ::send(near.get(), &word, sizeof word, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return ::recv(far.get(), &word, sizeof word, 0) == sizeof word;
  }));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  while (::recv(far.get(), &word, sizeof word, 0) > 0) {
  }
  auto before = emulation->order_relay(0, RelayOrder::kReport).directions[0];
  auto passed = [&] {
    auto now = emulation->order_relay(0, RelayOrder::kReport).directions[0];
    return std::pair{now.packets - before.packets, now.lost - before.lost};
  };
  std::uint64_t received = 0, next = 0, last_word = 0;
  for (std::uint64_t batch = 1; batch <= kBatches; ++batch) {
    for (std::uint64_t i = 0; i < kBatch; ++i) {
      word = ++next;
      ASSERT_EQ(::send(near.get(), &word, sizeof word, 0), static_cast<ssize_t>(sizeof word));
    }
    ASSERT_TRUE(eventually([&] { return passed().first + passed().second >= batch * kBatch; }));
    ASSERT_TRUE(eventually([&] {
      while (::recv(far.get(), &word, sizeof word, 0) > 0) {
        EXPECT_GT(word, last_word) << "out of order, or twice";
        last_word = word;
        ++received;
      }
      return received + kOthers >= passed().first;
    }));
  }
  auto lost = passed().second;
  fmt::print("{} of {} datagrams lost, {} received\n", lost, kBatch * kBatches, received);
  double expected = kLoss * kBatch * kBatches;
  EXPECT_NEAR(static_cast<double>(lost), expected, 7 * std::sqrt(expected));
  EXPECT_NEAR(static_cast<double>(received + lost), static_cast<double>(kBatch * kBatches), kOthers);
}

/// Waits until a packet has reached the cut line of the relay.
bool swallowed(const Emulation& emulation, std::size_t link) {
  return eventually([&] { return emulation.order_relay(link, RelayOrder::kReport).directions[0].cut > 0; });
}

TEST(Relay, StopsEverythingWhileCutAndCarriesOnAfterwards) {
  auto emulation = start("two-clusters:hosts=2,rtt=2ms");
  auto [near, far] = tcp_between(*emulation, 0, 1, "");
  ASSERT_TRUE(ping(near, far));
  emulation->order_relay(0, RelayOrder::kCut);
  char byte = 'c';
  ASSERT_EQ(::send(near.get(), &byte, 1, 0), 1);
  EXPECT_TRUE(swallowed(*emulation, 0));
  EXPECT_EQ(::recv(far.get(), &byte, 1, MSG_DONTWAIT), -1);
  emulation->order_relay(0, RelayOrder::kRestore);
  // TCP retransmits.
  EXPECT_EQ(::recv(far.get(), &byte, 1, 0), 1);
  EXPECT_THROW(emulation->order_relay(1, RelayOrder::kCut), Error);
  auto bucket = start("two-clusters:hosts=2");
  EXPECT_THROW(bucket->order_relay(0, RelayOrder::kReport), Error) << "a token bucket takes no orders";
}

TEST(Relay, CutsOneOfTwoPathsAndLeavesTheOther) {
  auto emulation = start("two-paths:rates=1gbit/250mbit,rtt=2ms");
  EXPECT_EQ(emulation->cluster().hosts[0].nics[1].rate_bits_per_second, 250'000'000U);
  auto [near0, far0] = tcp_between(*emulation, 0, 1, "path0");
  auto [near1, far1] = tcp_between(*emulation, 0, 1, "path1");
  ASSERT_TRUE(ping(near0, far0));
  ASSERT_TRUE(ping(near1, far1));
  emulation->order_relay(1, RelayOrder::kCut);
  ASSERT_TRUE(ping(near0, far0));
  char byte = 'c';
  ASSERT_EQ(::send(near1.get(), &byte, 1, 0), 1);
  EXPECT_TRUE(swallowed(*emulation, 1));
  EXPECT_EQ(::recv(far1.get(), &byte, 1, MSG_DONTWAIT), -1);
  ASSERT_TRUE(ping(near0, far0));
}

// The processes of an emulation, found by their network namespace: children of the holder, and those that
// outlive it.
std::vector<pid_t> processes_in_network_of(pid_t pid) {
  namespace fs = std::filesystem;
  std::vector<pid_t> found;
  std::error_code status;
  auto network = fs::read_symlink(fmt::format("/proc/{}/ns/net", pid), status);
  for (const auto& process : fs::directory_iterator("/proc", status)) {
    std::string name = process.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (fs::read_symlink(process.path() / "ns/net", status) == network && !status && std::stoi(name) != pid) {
      found.push_back(std::stoi(name));
    }
  }
  return found;
}

TEST(Relay, EndsWithItsHolderHoweverThatEnds) {
  auto emulation = start("two-paths:rtt=2ms");
  auto relays = processes_in_network_of(emulation->holder());
  ASSERT_EQ(relays.size(), 2U);
  emulation.reset();
  for (pid_t relay : relays) EXPECT_FALSE(is_running(relay)) << relay;

  emulation = start("two-paths:rtt=2ms");
  relays = processes_in_network_of(emulation->holder());
  ASSERT_EQ(relays.size(), 2U);
  ::kill(emulation->holder(), SIGKILL);
  for (pid_t relay : relays) EXPECT_TRUE(eventually([&] { return !is_running(relay); })) << relay;
}

TEST(Relay, TakesTheEmulationWithItWhenItIsKilled) {
  auto emulation = start("two-paths:rtt=2ms");
  auto relays = processes_in_network_of(emulation->holder());
  ASSERT_EQ(relays.size(), 2U);
  ::kill(relays[0], SIGKILL);
  EXPECT_TRUE(eventually([&] { return !is_running(relays[1]) && !is_running(emulation->holder()); }));
  EXPECT_FALSE(std::filesystem::exists(emulation->directory()));
}

TEST(Relay, SaysWhatItNeedsWhereTheUserMayNotHaveIt) {
  pid_t child = ::fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() != 0 || ::setgroups(0, nullptr) != 0 || ::setresgid(kNobody, kNobody, kNobody) != 0 ||
        ::setresuid(kNobody, kNobody, kNobody) != 0) {
      ::_exit(77);
    }
    ::setenv("TMPDIR", "/tmp", 1);
    if (!why_no_namespaces().empty()) ::_exit(77);
    bool may = ::access("/dev/net/tun", R_OK | W_OK) == 0;
    try {
      auto emulation = start("two-clusters:hosts=2,rtt=2ms");
      ::_exit(may && emulation->order_relay(0, RelayOrder::kReport).directions[0].lost == 0 ? 0 : 2);
    } catch (const Error& error) {
      fmt::print("{}\n", error.what());
      std::fflush(stdout);
      bool named = std::string(error.what()).find("/dev/net/tun") != std::string::npos;
      ::_exit(!may && named && error.cause() == Cause::kUnsupported ? 0 : 3);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (tools::exit_code_of(status) == 77) GTEST_SKIP() << "not root, or no user namespaces for ordinary users";
  EXPECT_EQ(tools::exit_code_of(status), 0);
}

}  // namespace
}  // namespace tombolo::emulation

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  std::string refused = tombolo::emulation::why_no_namespaces();
  if (refused.empty() && ::access("/dev/net/tun", R_OK | W_OK) != 0)
    refused = "/dev/net/tun may not be opened";
  if (!refused.empty()) {
    fmt::print("skipped: {}\n", refused);
    return 77;
  }
  return RUN_ALL_TESTS();
}
