// Tests the RDMA transport over real verbs, beyond the contract of all transports: registration, long
// messages, and failures of the network or the peer. Runs inside tests/rdma_vm's machine, or wherever
// TOMBOLO_TEST_RDMA names NICs (transport/testing/test_support.h); the faults are made with ip(8), so it
// needs root there.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <thread>

#include "base/randomized_test.h"
#include "base/units.h"
#include "transport/one_sided.h"
#include "transport/testing/test_messages.h"

namespace tombolo::transport {
namespace {

using test::expect_carried;
using test::expect_in;
using test::finish;
using test::random_data;
using test::rdma_hosts;
using test::rdma_router_options;

/// One acknowledgement timeout of 67 ms: a silent peer is noticed in half a second, or at worst in two.
RdmaOptions impatient() {
  RdmaOptions options;
  options.timeout = 14;
  return options;
}

class Verbs : public testing::Test {
 protected:
  void SetUp() override {
    if (rdma_hosts().size() != 2) GTEST_SKIP() << "TOMBOLO_TEST_RDMA names no NICs";
  }
  test::Pair connect(std::size_t nics = 1, const RdmaOptions& options = {}) {
    auto both = rdma_router_options(nics, options);
    Router left(both.at(0)), right(both.at(1));
    auto listener = right.listen();
    return test::connect_pair(left, *listener);
  }
  static void run(const std::string& command) { ASSERT_EQ(std::system(command.c_str()), 0) << command; }
  std::mt19937_64 random_{test_seed()};
};

TEST_F(Verbs, TheRouteNamesTransportAndNics) {
  auto pair = connect();
  EXPECT_EQ(pair.first->route().transport, "rdma");
  EXPECT_EQ(pair.first->route().kind, topology::NicKind::kRoce);
  EXPECT_EQ(pair.first->route().local_nic, rdma_hosts()[0].nics[0].name);
  EXPECT_EQ(pair.first->route().peer_nic, rdma_hosts()[1].nics[0].name);
  EXPECT_EQ(pair.second->route().local_nic, rdma_hosts()[1].nics[0].name);
  EXPECT_EQ(pair.second->route().transport, "rdma");
}

TEST_F(Verbs, RegisteredMemoryIsSentFromAndReceivedInto) {
  test::expect_registered_memory_is_used(connect(2), random_);
}

TEST_F(Verbs, ABufferOutsideItsRegistrationIsRefusedByName) {
  test::expect_a_buffer_outside_its_registration_is_refused(connect());
}

TEST_F(Verbs, AMessageLongerThanTheNicCarriesAtOnceArrivesWhole) {
  // Soft-RoCE takes 8 MiB at once: this one takes several work requests for each of its parts.
  RdmaOptions options;
  options.queue_pairs = 2;
  auto pair = connect(1, options);
  auto data = random_data(random_, (20 << 20) + 12345);
  std::vector<std::byte> buffer(data.size() + 1);
  expect_carried(*pair.first, *pair.second, data, buffer);
}

TEST_F(Verbs, MemoryThatWasUnmappedAndMappedAnewIsNeverReachedThroughAnOldRegistration) {
  auto pair = connect();
  constexpr std::size_t kSize = 1 << 20;
  void* const place = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(place, MAP_FAILED);
  std::vector<std::byte> buffer(kSize);
  for (int turn = 1; turn <= 3; ++turn) {
    // Other pages at the same address, which are not registered.
    ASSERT_EQ(::mmap(place, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
              place);
    const std::span data(static_cast<std::byte*>(place), kSize);
    std::ranges::fill(data, static_cast<std::byte>(turn));
    expect_carried(*pair.first, *pair.second, data, buffer);
    // And the other way round, into them.
    ASSERT_EQ(::mmap(place, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
              place);
    expect_carried(*pair.second, *pair.first, buffer, data);
  }
  ::munmap(place, kSize);
}

// The memory is the host's, which soft-RoCE registers like any other: the test is that queue pairs connected
// to themselves read.
TEST_F(Verbs, AFlushReadsBackWithEveryNicThroughAQueuePairOfItsOwn) {
  for (const std::size_t nics : {1, 2}) {
    RdmaOptions options;
    options.eager_bytes = 0;
    auto pair = connect(nics, options);
    const auto data = random_data(random_, 300'000);
    std::vector<std::byte> buffer(data.size());
    const auto memory = pair.second->register_memory(buffer, MemoryKind::kCuda);
    for (int turn = 0; turn < 3; ++turn) {
      std::vector<Request*> flushes;
      for (int i = 0; i < 100; ++i)
        flushes.push_back(pair.second->post_flush(std::span(buffer).first(1000), memory.get()));
      expect_carried(*pair.first, *pair.second, data, buffer);
      for (Request* one : flushes) {
        ASSERT_NE(one, nullptr);
        std::size_t bytes = 0;
        ASSERT_EQ(finish(*pair.second, one, bytes), Outcome::kDone) << pair.second->error()->what();
      }
    }
  }
}

TEST_F(Verbs, NicsWriteAndReadTheOtherEndsMemoryByThemselves) {
  for (const std::size_t nics : {1, 2}) {
    RdmaOptions options;
    options.queue_pairs = 2;
    auto pair = connect(nics, options);
    OneSided* const left = pair.first->one_sided();
    ASSERT_NE(left, nullptr);
    // More than soft-RoCE takes at once.
    constexpr std::size_t kLargest = (9 << 20) + 7;
    auto here = random_data(random_, kLargest), there = random_data(random_, kLargest);
    const auto mine = left->open(here), theirs = pair.second->one_sided()->open(there);
    auto wanted_here = here, wanted_there = there;
    for (int turn = 0; turn < 40; ++turn) {
      const std::size_t limit = turn % 10 == 0 ? kLargest : turn % 2 == 0 ? 300'000 : 5'000;
      OneSidedOperation one;
      one.kind = random_() % 2 == 0 ? OneSidedOperation::Kind::kWrite : OneSidedOperation::Kind::kRead;
      one.bytes = 1 + random_() % limit;
      const std::size_t at = random_() % (kLargest - one.bytes + 1);
      one.offset = random_() % (kLargest - one.bytes + 1);
      one.window = mine.get();
      one.local = here.data() + at;
      one.remote = theirs->remote();
      const bool writes = one.kind == OneSidedOperation::Kind::kWrite;
      const std::byte* from = writes ? wanted_here.data() + at : wanted_there.data() + one.offset;
      std::copy_n(from, one.bytes, writes ? wanted_there.data() + one.offset : wanted_here.data() + at);
      ASSERT_EQ(left->begin(one), OneSided::Begun::kYes);
      for (const auto deadline = test::soon(); one.state == OneSidedOperation::State::kUnderWay;) {
        pair.first->progress();
        ASSERT_FALSE(deadline.passed());
      }
      ASSERT_EQ(one.state, OneSidedOperation::State::kDone) << test::why_failed(*pair.first);
      if (turn % 5 == 4) {  // comparing is what takes long on an emulated machine
        ASSERT_EQ(there, wanted_there) << "turn " << turn;
        ASSERT_EQ(here, wanted_here) << "turn " << turn;
      }
    }
  }
}

TEST_F(Verbs, ANicRefusesAWindowThatIsClosed) {
  auto pair = connect();
  std::vector<std::byte> here(10'000), there(10'000, std::byte{7});
  const auto mine = pair.first->one_sided()->open(here);
  auto theirs = pair.second->one_sided()->open(there);
  OneSidedOperation one;
  one.window = mine.get();
  one.local = here.data();
  one.bytes = here.size();
  one.remote = theirs->remote();
  theirs.reset();
  ASSERT_EQ(pair.first->one_sided()->begin(one), OneSided::Begun::kYes);
  for (const auto deadline = test::soon(); one.state == OneSidedOperation::State::kUnderWay;) {
    pair.first->progress();
    ASSERT_FALSE(deadline.passed());
  }
  EXPECT_EQ(one.state, OneSidedOperation::State::kLost);
  expect_in(test::why_failed(*pair.first), "no window, or not any more");
  EXPECT_EQ(there, std::vector<std::byte>(there.size(), std::byte{7}));
}

TEST_F(Verbs, WhatCountedAsSentArrivesThoughTheSenderClosedSince) {
  test::expect_sent_messages_outlive_their_sender(connect(), 100'000);
}

TEST_F(Verbs, ManyMessagesEachWayDoNotExhaustQueuesOrCredits) {
  RdmaOptions options;
  options.queue_pairs = 2;
  auto pair = connect(2, options);
  // Small and large mixed, far more than any queue has entries, neither end ahead of the other for long.
  constexpr int kMessages = 1500;
  std::vector<std::byte> small(64, std::byte{5}), large(9000, std::byte{6});
  Connection* ends[2] = {pair.first.get(), pair.second.get()};
  struct Flow {
    std::vector<Request*> requests;
    std::vector<std::vector<std::byte>> buffers =
        std::vector<std::vector<std::byte>>(64, std::vector<std::byte>(10'000));
    int posted = 0, done = 0;
  };
  Flow sending[2], receiving[2];
  auto deadline = test::soon();
  while (!deadline.passed()) {
    bool all = true;
    for (int e = 0; e < 2; ++e) {
      for (bool send : {true, false}) {
        Flow& flow = send ? sending[e] : receiving[e];
        all &= flow.done == kMessages;
        while (flow.posted < kMessages && flow.posted - flow.done < 60) {
          const auto at = static_cast<std::size_t>(flow.posted) % 64;
          Request* request = send ? ends[e]->post_send(flow.posted % 3 == 0 ? large : small)
                                  : ends[e]->post_receive(flow.buffers[at]);
          if (request == nullptr) break;
          flow.requests.push_back(request);
          ++flow.posted;
        }
        std::size_t bytes = 0;
        while (flow.done < flow.posted) {
          const Outcome outcome = ends[e]->test(flow.requests[static_cast<std::size_t>(flow.done)], bytes);
          ASSERT_NE(outcome, Outcome::kFailed) << ends[e]->error()->what();
          if (outcome == Outcome::kPending) break;
          ASSERT_EQ(bytes, (flow.done % 3 == 0 ? large : small).size()) << "message " << flow.done;
          ++flow.done;
        }
      }
    }
    if (all) break;
  }
  for (int e = 0; e < 2; ++e) {
    EXPECT_EQ(sending[e].done, kMessages);
    EXPECT_EQ(receiving[e].done, kMessages);
  }
  EXPECT_EQ(pair.first->statistics().messages_received, static_cast<std::uint64_t>(kMessages));
  EXPECT_EQ(pair.first->statistics().live_streams, 5u) << "one for control, two on each pair of NICs";
}

TEST_F(Verbs, OneEndMayRunFarAheadOfTheOther) {
  auto pair = connect();
  // Sends without receives, both ways, then the receives: nothing may wait for the other for ever.
  std::vector<std::byte> small(100, std::byte{1}), large(50'000, std::byte{2});
  std::vector<Request*> sends[2], receives[2];
  Connection* ends[2] = {pair.first.get(), pair.second.get()};
  for (int i = 0; i < 200; ++i) {
    for (int e = 0; e < 2; ++e) sends[e].push_back(ends[e]->post_send(i % 50 == 49 ? large : small));
  }
  for (int i = 0; i < 2000; ++i) {
    for (Connection* end : ends) end->progress();
  }
  std::vector<std::byte> buffer(60'000);
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < 200; ++i) {
    for (int e = 0; e < 2; ++e) {
      Request* receive = ends[e]->post_receive(buffer);
      ASSERT_EQ(finish(*ends[e], receive, bytes, ends[1 - e]), Outcome::kDone);
      ASSERT_EQ(bytes, i % 50 == 49 ? large.size() : small.size());
    }
  }
  for (int e = 0; e < 2; ++e) {
    for (Request* send : sends[e]) ASSERT_EQ(finish(*ends[e], send, bytes, ends[1 - e]), Outcome::kDone);
  }
}

TEST_F(Verbs, AKilledPeerIsNoticedAtOnceAndNamed) {
  Router right(rdma_router_options(1).at(1));
  auto listener = right.listen();
  const auto endpoint = listener->endpoint().encode();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(240);  // whatever becomes of the parent
    try {
      Router left(rdma_router_options(1).at(0));
      auto connecting = left.connect(Endpoint::decode(endpoint), {});
      std::unique_ptr<Connection> connection;
      while (!connection) connection = connecting->poll();
      std::vector<std::byte> data(100'000);
      while (Request* send = connection->post_send(data)) {
        std::size_t bytes = 0;
        while (connection->test(send, bytes) == Outcome::kPending) {
        }
      }
      std::cerr << "the child cannot send: "
                << (connection->error() != nullptr ? connection->error()->what() : "?") << std::endl;
    } catch (const std::exception& error) {
      std::cerr << "the child failed: " << error.what() << std::endl;
    }
    std::_Exit(1);  // the rest of the tests is the parent's
  }
  std::unique_ptr<Connection> connection;
  for (auto deadline = test::soon(); !connection && !deadline.passed();) connection = listener->accept();
  if (!connection) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  ASSERT_TRUE(connection);
  std::vector<std::byte> buffer(100'000);
  std::size_t bytes = 0;
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(finish(*connection, connection->post_receive(buffer), bytes), Outcome::kDone);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  Outcome outcome = Outcome::kDone;
  while (outcome == Outcome::kDone) outcome = finish(*connection, connection->post_receive(buffer), bytes);
  EXPECT_EQ(outcome, Outcome::kFailed);
  ASSERT_NE(connection->error(), nullptr);
  EXPECT_EQ(connection->error()->cause(), Cause::kRemote);
  expect_in(connection->error()->what(), "vanished");
  expect_in(connection->error()->what(), "host left");
}

TEST_F(Verbs, DifferentMtusAreBridgedByTheSmaller) {
  const std::string nic = rdma_hosts()[0].nics[0].name;
  run("ip link set " + nic + " mtu 1500");
  {
    auto both = rdma_router_options(1);
    auto meters = std::make_shared<Meters>();
    both.at(0).meters = meters;
    Router left(both.at(0)), right(both.at(1));
    auto listener = right.listen();
    auto pair = test::connect_pair(left, *listener);
    auto data = random_data(random_, 300'000);
    std::vector<std::byte> buffer(data.size());
    expect_carried(*pair.first, *pair.second, data, buffer);
    ASSERT_EQ(meters->read().connections.size(), 1u);
    EXPECT_EQ(meters->read().connections[0].streams.at(1).path_mtu, 1024u);
  }
  run("ip link set " + nic + " mtu 4200");
}

/// The two hosts with their first RDMA NIC each, and an Ethernet one that reaches.
std::vector<RouterOptions> with_ethernet() {
  auto both = rdma_router_options(1, impatient());
  for (int side = 0; side < 2; ++side) {
    topology::Nic nic;
    nic.name = side == 0 ? "ea" : "eb";
    nic.addresses = {side == 0 ? "10.78.0.1" : "10.78.0.2"};
    both[side].host.nics.push_back(nic);
    both[side].policy.transports.clear();
  }
  return both;
}

TEST_F(Verbs, FabricsWithoutARouteBetweenThemEndOnTcpWithTheReason) {
  auto both = with_ethernet();
  // The left end's first rail and the right end's second: nothing leads from the one to the other.
  both[1].host.nics[0] = rdma_hosts()[1].nics.at(1);
  std::vector<std::string> lines;
  both[0].log = Log(LogLevel::kInfo, [&](LogLevel, std::string_view line) { lines.emplace_back(line); });
  {
    Router left(both[0]), right(both[1]);
    auto listener = right.listen();
    auto pair = test::connect_pair(left, *listener);
    ASSERT_TRUE(pair.first);
    EXPECT_EQ(pair.first->route().transport, "tcp");
    EXPECT_EQ(pair.first->route().local_nic, "ea");
    expect_in(pair.first->route().reason, "rdma was tried first");
    std::string all;
    for (const std::string& line : lines) all += line + "\n";
    expect_in(all, "rdma was tried first");
    std::vector<std::byte> data(100'000, std::byte{9}), buffer(100'000);
    expect_carried(*pair.first, *pair.second, data, buffer);
  }
}

TEST_F(Verbs, WhereRdmaIsRequiredADeadFabricIsAnErrorAndNotAFallback) {
  auto both = with_ethernet();
  both[1].host.nics[0] = rdma_hosts()[1].nics.at(1);
  both[0].policy.require_rdma = true;
  {
    Router left(both[0]), right(both[1]);
    auto listener = right.listen();
    auto connecting = left.connect(listener->endpoint(), {});
    std::string what;
    for (auto deadline = test::soon(); what.empty() && !deadline.passed();) {
      try {
        ASSERT_EQ(connecting->poll(), nullptr);
        ASSERT_EQ(listener->accept(), nullptr);
        test::wait_on(*connecting, *listener);
      } catch (const Error& error) {
        what = error.what();
      }
    }
    expect_in(what, "rdma connection to host right");
  }
}

TEST_F(Verbs, TrafficThatTheNetworkSwallowsEndsOnTcpToo) {
  // The kernel has a route and an address, but no packet of RoCE arrives.
  auto both = with_ethernet();
  const std::string nic = rdma_hosts()[0].nics[0].name;
  run("tc qdisc add dev " + nic + " root handle 1: prio && tc filter add dev " + nic +
      " parent 1: protocol ip u32 match ip dport 4791 0xffff action drop");
  {
    Router left(both[0]), right(both[1]);
    auto listener = right.listen();
    auto pair = test::connect_pair(left, *listener);
    ASSERT_TRUE(pair.first);
    EXPECT_EQ(pair.first->route().transport, "tcp");
    expect_in(pair.first->route().reason, "rdma was tried first");
    expect_in(pair.first->route().reason, "test write");
  }
  run("tc qdisc del dev " + nic + " root");
}

TEST_F(Verbs, ALinkThatGoesDownWhileDataFlowsIsNamedInBoundedTime) {
  auto pair = connect(1, impatient());
  const std::string nic = rdma_hosts()[0].nics[0].name;
  std::vector<std::byte> data(2 << 20), buffer(2 << 20);
  std::size_t bytes = 0;
  Request* receive = pair.second->post_receive(buffer);
  Request* send = pair.first->post_send(data);
  ASSERT_EQ(finish(*pair.second, receive, bytes, pair.first.get()), Outcome::kDone);
  ASSERT_EQ(finish(*pair.first, send, bytes, pair.second.get()), Outcome::kDone);
  send = pair.first->post_send(data);
  receive = pair.second->post_receive(buffer);
  pair.second->progress();
  pair.first->progress();
  run("ip link set " + nic + " down");
  const Outcome sent = finish(*pair.first, send, bytes, pair.second.get());
  if (sent == Outcome::kDone) {
    // This message was sent before the failure; the next one must fail.
    send = pair.first->post_send(data);
    pair.second->post_receive(buffer);
    ASSERT_EQ(finish(*pair.first, send, bytes, pair.second.get()), Outcome::kFailed);
  }
  ASSERT_NE(pair.first->error(), nullptr);
  const std::string text = pair.first->error()->what();
  expect_in(text, rdma_hosts()[0].nics[0].rdma_device);
  expect_in(text, "went down");
  EXPECT_EQ(finish(*pair.second, receive, bytes), sent == Outcome::kDone ? Outcome::kDone : Outcome::kFailed);
  pair.first.reset();
  pair.second.reset();
  run("ip link set " + nic + " up && bash -c '. \"$TOMBOLO_TEST_NETWORK\" && rail_again 0'");
}

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
    auto both = with_ethernet();
    for (RouterOptions& one : both) one.rdma = RdmaOptions();
    {
      auto pair = test::connect_routers(both[0], both[1]);
      ASSERT_TRUE(pair.first && pair.second);
      ASSERT_EQ(pair.first->route().transport, "rdma");
      exchange_through(pair, random_, 300, [&] { run("ip link set " + nic + " down"); });
      // Where all was over before the link went down, there was nothing to move for.
      exchange_through(pair, random_, 20, [] {});
      EXPECT_EQ(pair.first->route().transport, "tcp");
      EXPECT_EQ(pair.second->route().transport, "tcp");
      run("ip link set " + nic + " up && bash -c '. \"$TOMBOLO_TEST_NETWORK\" && rail_again 0'");
      exchange_until_back(pair, random_, 1);
    }
  }
}

TEST_F(Verbs, GoesOnOverEthernetWhenALinkGoesDownInTheFirstMoment) {
  for (const int side : {0, 1}) {
    const std::string nic = rdma_hosts()[side].nics[0].name;
    auto both = with_ethernet();
    for (RouterOptions& one : both) one.rdma = RdmaOptions();
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
      run("ip link set " + nic + " down");
      for (const auto deadline = test::soon(); !pair.second; pair.second = listener->accept())
        ASSERT_FALSE(deadline.passed());
      exchange_through(pair, random_, 20, [] {});
      EXPECT_EQ(pair.first->route().transport, "tcp");
      EXPECT_EQ(pair.second->route().transport, "tcp");
      run("ip link set " + nic + " up && bash -c '. \"$TOMBOLO_TEST_NETWORK\" && rail_again 0'");
      exchange_until_back(pair, random_, 1);
    }
  }
}

TEST_F(Verbs, GoesOnOverEthernetWhenTheNetworkSwallowsRoceAloneAndReturns) {
  const std::string nic = rdma_hosts()[0].nics[0].name;
  auto both = with_ethernet();
  for (RouterOptions& one : both) one.rdma = RdmaOptions();
  {
    auto pair = test::connect_routers(both[0], both[1]);
    ASSERT_TRUE(pair.first && pair.second);
    ASSERT_EQ(pair.first->route().transport, "rdma");
    const auto swallow = [&] {
      run("tc qdisc add dev " + nic + " root handle 1: prio && tc filter add dev " + nic +
          " parent 1: protocol ip u32 match ip dport 4791 0xffff action drop");
    };
    exchange_through(pair, random_, 300, swallow);
    exchange_through(pair, random_, 20, [] {});
    EXPECT_EQ(pair.first->route().transport, "tcp");
    EXPECT_EQ(pair.second->route().transport, "tcp");
    run("tc qdisc del dev " + nic + " root");
    exchange_until_back(pair, random_, 1);
  }
}

TEST_F(Verbs, GoesOnOverTheRailThatIsLeftOfTwoAndReturnsToBoth) {
  const std::string nic = rdma_hosts()[1].nics[0].name;
  std::vector<RouterOptions> both = with_ethernet();
  for (int side = 0; side < 2; ++side) {
    both[side].rdma = RdmaOptions();
    both[side].host.nics.push_back(rdma_hosts()[side].nics.at(1));
  }
  auto pair = test::connect_routers(both[0], both[1]);
  ASSERT_TRUE(pair.first && pair.second);
  ASSERT_EQ(pair.first->statistics().live_streams, 3u);
  exchange_through(pair, random_, 300, [&] { run("ip link set " + nic + " down"); });
  exchange_through(pair, random_, 20, [] {});
  EXPECT_EQ(pair.first->route().transport, "rdma");
  EXPECT_EQ(pair.first->statistics().live_streams, 2u);
  EXPECT_EQ(pair.first->route().local_nic, rdma_hosts()[0].nics.at(1).name);
  run("ip link set " + nic + " up && bash -c '. \"$TOMBOLO_TEST_NETWORK\" && rail_again 0'");
  exchange_until_back(pair, random_, 2);
}

TEST_F(Verbs, GoesOnOverTheOtherRdmaNic) {
  const std::string nic = rdma_hosts()[0].nics[0].name;
  std::vector<RouterOptions> both = with_ethernet();
  for (int side = 0; side < 2; ++side) {
    both[side].rdma = RdmaOptions();
    // A far slower rail, which does not carry it together with the first.
    both[side].host.nics.push_back(rdma_hosts()[side].nics.at(1));
    both[side].host.nics.back().rate_bits_per_second /= 20;
  }
  {
    auto pair = test::connect_routers(both[0], both[1]);
    ASSERT_TRUE(pair.first && pair.second);
    ASSERT_EQ(pair.first->route().local_nic, nic);
    exchange_through(pair, random_, 300, [&] { run("ip link set " + nic + " down"); });
    exchange_through(pair, random_, 20, [] {});
    EXPECT_EQ(pair.first->route().transport, "rdma");
    EXPECT_EQ(pair.first->route().local_nic, rdma_hosts()[0].nics.at(1).name);
  }
  run("ip link set " + nic + " up && bash -c '. \"$TOMBOLO_TEST_NETWORK\" && rail_again 0'");
}

}  // namespace
}  // namespace tombolo::transport
