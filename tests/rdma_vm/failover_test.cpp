// That connections go on over other NICs or over Ethernet when the network fails beneath their queue pairs,
// and return.
#include <algorithm>
#include <functional>
#include <iostream>
#include <thread>

#include "base/units.h"
#include "tests/rdma_vm/network_faults.h"
#include "tests/rdma_vm/verbs_fixture.h"

namespace tombolo::transport {
namespace {

using test::finish;
using test::random_data;
using test::rdma_hosts;

/// Messages both ways, each compared, between two ends that may move; calls `fault` once in another thread.
/// Raises `longest_of_all` to the longest time in which none arrived, or prints it where that is null.
void exchange_through(const test::Pair& pair, std::mt19937_64& random, int messages,
                      const std::function<void()>& fault, Duration* longest_of_all = nullptr) {
  Connection* ends[2] = {pair.first.get(), pair.second.get()};
  std::jthread at_fault;
  TimePoint last = Clock::steady().now();
  Duration longest{};
  for (int i = 0; i < messages; ++i) {
    std::vector<std::byte> sent[2], got[2];
    Request *sends[2], *receives[2];
    for (int e = 0; e < 2; ++e) {
      sent[e] = random_data(random, random() % (random() % 4 == 0 ? 200'000 : 6'000));
      got[1 - e].resize(sent[e].size());
    }
    for (int e = 0; e < 2; ++e) {
      receives[e] = ends[e]->post_receive(got[e]);
      sends[e] = ends[e]->post_send(sent[e]);
    }
    if (i == messages / 4) at_fault = std::jthread(fault);
    for (int e = 0; e < 2; ++e) {
      std::size_t bytes = 0;
      ASSERT_EQ(finish(*ends[e], receives[e], bytes, ends[1 - e]), Outcome::kDone)
          << test::why_failed(*ends[0]) << "; the other end: " << test::why_failed(*ends[1]);
      longest = std::max(longest, Clock::steady().now() - last);
      last = Clock::steady().now();
      ASSERT_EQ(bytes, sent[1 - e].size());
      ASSERT_TRUE(sent[1 - e] == got[e]) << "message " << i;
    }
    for (int e = 0; e < 2; ++e) {
      std::size_t bytes = 0;
      ASSERT_EQ(finish(*ends[e], sends[e], bytes, ends[1 - e]), Outcome::kDone)
          << test::why_failed(*ends[0]) << "; the other end: " << test::why_failed(*ends[1]);
    }
  }
  at_fault = {};
  if (longest_of_all != nullptr)
    *longest_of_all = std::max(*longest_of_all, longest);
  else
    std::cout << "the longest time in which nothing arrived: " << format_seconds(to_seconds(longest))
              << std::endl;
}

/// Exchanges messages until both ends use RDMA again, over so many NICs. Prints the longest time in which
/// none arrived.
void exchange_until_back(const test::Pair& pair, std::mt19937_64& random, std::size_t nics) {
  const auto back = [&](const Connection& one) {
    return one.route().transport == "rdma" && one.statistics().live_streams == 1 + nics;
  };
  const TimePoint begun = Clock::steady().now();
  Duration longest{};
  for (const auto deadline = test::soon(); !back(*pair.first) || !back(*pair.second);) {
    exchange_through(
        pair, random, 20, [] {}, &longest);
    if (testing::Test::HasFatalFailure()) return;
    ASSERT_FALSE(deadline.passed()) << pair.first->route().transport;
  }
  std::cout << "the longest time until it was back, "
            << format_seconds(to_seconds(Clock::steady().now() - begun))
            << ", in which nothing arrived: " << format_seconds(to_seconds(longest)) << std::endl;
}

TEST_F(Verbs, GoesOnOverEthernetWhenALinkOfEitherEndGoesDownAndReturns) {
  for (const int side : {0, 1}) {
    const std::string nic = rdma_hosts()[side].nics[0].name;
    auto both = with_ethernet(RdmaOptions());
    {
      auto pair = test::connect_routers(both[0], both[1]);
      ASSERT_TRUE(pair.first && pair.second);
      ASSERT_EQ(pair.first->route().transport, "rdma");
      exchange_through(pair, random_, 300, [&] { link_down(nic); });
      // Where all was over before the link went down, there was nothing to move for.
      exchange_through(pair, random_, 20, [] {});
      EXPECT_EQ(pair.first->route().transport, "tcp");
      EXPECT_EQ(pair.second->route().transport, "tcp");
      link_up(nic);
      exchange_until_back(pair, random_, 1);
    }
  }
}

TEST_F(Verbs, GoesOnOverEthernetWhenALinkGoesDownInTheFirstMoment) {
  for (const int side : {0, 1}) {
    const std::string nic = rdma_hosts()[side].nics[0].name;
    auto both = with_ethernet(RdmaOptions());
    {
      Router left(both[0]), right(both[1]);
      const auto listener = right.listen();
      const auto connecting = left.connect(Endpoint::decode(listener->endpoint().encode()), {});
      test::Pair pair;
      for (const auto deadline = test::soon(); !pair.first; pair.first = connecting->poll()) {
        ASSERT_FALSE(deadline.passed());
        if (!pair.second) pair.second = listener->accept();
      }
      ASSERT_EQ(pair.first->route().transport, "rdma");
      link_down(nic);
      for (const auto deadline = test::soon(); !pair.second; pair.second = listener->accept())
        ASSERT_FALSE(deadline.passed());
      exchange_through(pair, random_, 20, [] {});
      EXPECT_EQ(pair.first->route().transport, "tcp");
      EXPECT_EQ(pair.second->route().transport, "tcp");
      link_up(nic);
      exchange_until_back(pair, random_, 1);
    }
  }
}

TEST_F(Verbs, GoesOnOverEthernetWhenTheNetworkSwallowsRoceAloneAndReturns) {
  const std::string nic = rdma_hosts()[0].nics[0].name;
  auto both = with_ethernet(RdmaOptions());
  {
    auto pair = test::connect_routers(both[0], both[1]);
    ASSERT_TRUE(pair.first && pair.second);
    ASSERT_EQ(pair.first->route().transport, "rdma");
    exchange_through(pair, random_, 300, [&] { swallow_roce(nic); });
    exchange_through(pair, random_, 20, [] {});
    EXPECT_EQ(pair.first->route().transport, "tcp");
    EXPECT_EQ(pair.second->route().transport, "tcp");
    deliver_all(nic);
    exchange_until_back(pair, random_, 1);
  }
}

TEST_F(Verbs, GoesOnOverTheRailThatIsLeftOfTwoAndReturnsToBoth) {
  const std::string nic = rdma_hosts()[1].nics[0].name;
  std::vector<RouterOptions> both = with_ethernet(RdmaOptions());
  for (int side = 0; side < 2; ++side) {
    both[side].host.nics.push_back(rdma_hosts()[side].nics.at(1));
  }
  auto pair = test::connect_routers(both[0], both[1]);
  ASSERT_TRUE(pair.first && pair.second);
  ASSERT_EQ(pair.first->statistics().live_streams, 3u);
  exchange_through(pair, random_, 300, [&] { link_down(nic); });
  exchange_through(pair, random_, 20, [] {});
  EXPECT_EQ(pair.first->route().transport, "rdma");
  EXPECT_EQ(pair.first->statistics().live_streams, 2u);
  EXPECT_EQ(pair.first->route().local_nic, rdma_hosts()[0].nics.at(1).name);
  link_up(nic);
  exchange_until_back(pair, random_, 2);
}

TEST_F(Verbs, GoesOnOverTheOtherRdmaNic) {
  const std::string nic = rdma_hosts()[0].nics[0].name;
  std::vector<RouterOptions> both = with_ethernet(RdmaOptions());
  for (int side = 0; side < 2; ++side) {
    // A far slower rail, which does not carry it together with the first.
    both[side].host.nics.push_back(rdma_hosts()[side].nics.at(1));
    both[side].host.nics.back().rate_bits_per_second /= 20;
  }
  {
    auto pair = test::connect_routers(both[0], both[1]);
    ASSERT_TRUE(pair.first && pair.second);
    ASSERT_EQ(pair.first->route().local_nic, nic);
    exchange_through(pair, random_, 300, [&] { link_down(nic); });
    exchange_through(pair, random_, 20, [] {});
    EXPECT_EQ(pair.first->route().transport, "rdma");
    EXPECT_EQ(pair.first->route().local_nic, rdma_hosts()[0].nics.at(1).name);
  }
  link_up(nic);
}

}  // namespace
}  // namespace tombolo::transport
