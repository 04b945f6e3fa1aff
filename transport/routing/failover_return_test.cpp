// Connections that lose one of several rails, and that return to rails that are back, over a library of verbs
// without hardware: the transport's own backend, and NICs whose ports and network fail and recover.
#include <gtest/gtest.h>

#include <iostream>

#include "transport/rdma/device.h"
#include "transport/resumable.h"
#include "transport/routing/failover_connection.h"
#include "transport/testing/pretended_rdma.h"
#include "transport/testing/random_exchange.h"

namespace tombolo::transport {
namespace {

constexpr std::size_t kLeft = 0, kRight = 2;  // the first device of each host

class Rails : public testing::Test {
 protected:
  void SetUp() override {
    verbs_.reset(test_seed());
    rdma::Devices::of_process().use(verbs_.functions());
  }
  void TearDown() override {
    if (HasFailure()) std::cerr << book_.text();
    pair_ = {};
    EXPECT_EQ(verbs_.registered(), 0u);
    rdma::Devices::of_process().use(nullptr);
    verbs_.reset(1);
  }

  /// A host with so many RoCE NICs, and Ethernet.
  RouterOptions options(const std::string& host, std::size_t rails, std::size_t eager) {
    const bool is_left = host == "left";
    RouterOptions made = test::router_options(host);
    made.log = book_.of(host);
    made.policy.transports = {"rdma", "tcp"};
    made.rdma = test::pretended_options(1, eager);
    made.return_after = std::chrono::milliseconds(1);
    for (std::size_t i = 0; i < rails; ++i) {
      topology::Nic nic;
      nic.name = fmt::format("rail{}", i);
      nic.kind = topology::NicKind::kRoce;
      nic.rdma_device = test::PretendedVerbs::name((is_left ? kLeft : kRight) + i);
      nic.rdma_port = 1;
      nic.fabric = "fast";
      nic.addresses = {fmt::format("127.0.{}.{}", i + 1, is_left ? 1 : 2)};
      nic.rate_bits_per_second = 100'000'000'000;
      made.host.nics.push_back(nic);
    }
    return made;
  }
  void connect(std::size_t rails, std::size_t eager = 4096) {
    pair_ = test::connect_routers(options("left", rails, eager), options("right", rails, eager), 77);
    ASSERT_TRUE(pair_.first && pair_.second);
    ASSERT_EQ(left().route().transport, "rdma");
    // Each end has told the other then where further legs go.
    exchange_bytes();
    for (int turn = 0; turn < 100; ++turn) {
      left().progress();
      right().progress();
    }
  }
  void exchange_bytes() {
    std::byte byte{}, buffer{};
    test::expect_carried(left(), right(), {&byte, 1}, {&buffer, 1});
    test::expect_carried(right(), left(), {&byte, 1}, {&buffer, 1});
  }
  Connection& left() { return *pair_.first; }
  Connection& right() { return *pair_.second; }
  static FailoverConnection& moving(Connection& one) { return dynamic_cast<FailoverConnection&>(one); }
  /// Exchanges single bytes until both ends use that transport over so many rails.
  void go_on_until(const std::string& transport, std::size_t rails) {
    const auto deadline = test::soon();
    const auto there = [&](Connection& one) {
      // The route is that of the last call; queue pairs are one for control and one for each rail.
      return one.route().transport == transport &&
             (transport != "rdma" || one.statistics().live_streams == 1 + rails);
    };
    while (!there(left()) || !there(right())) {
      exchange_bytes();
      if (HasFatalFailure()) return;
      ASSERT_FALSE(deadline.passed()) << left().route().transport << " " << left().statistics().live_streams;
    }
  }

  test::PretendedVerbs& verbs_ = test::PretendedVerbs::instance();
  test::LogBook book_;
  test::Pair pair_;
};

/// What becomes of a rail.
struct Fault {
  enum class What : std::uint8_t { kPort, kBothPorts, kSwallows } what;
  std::size_t device;  // that it happens to
};
constexpr Fault kFaultsOfRail0[] = {{Fault::What::kPort, kLeft},
                                    {Fault::What::kPort, kRight},
                                    {Fault::What::kBothPorts, kLeft},
                                    {Fault::What::kSwallows, kLeft},
                                    {Fault::What::kSwallows, kRight}};

void inflict(test::PretendedVerbs& verbs, const Fault& fault, bool on) {
  if (fault.what == Fault::What::kSwallows) return verbs.swallow(fault.device, on);
  verbs.set_link(fault.device, !on);
  if (fault.what == Fault::What::kBothPorts) verbs.set_link(fault.device ^ 2U, !on);
}

TEST_F(Rails, AConnectionThatLosesItsOnlyRailGoesOverTcpAndReturns) {
  std::mt19937_64 random(test_seed());
  for (const Fault fault : kFaultsOfRail0) {
    SCOPED_TRACE(fmt::format("device {}, fault {}", fault.device, static_cast<int>(fault.what)));
    connect(1);
    for (int times = 1; times <= 2; ++times) {
      inflict(verbs_, fault, true);
      go_on_until("tcp", 0);
      test::exchange_randomly(left(), right(), random, 20);
      inflict(verbs_, fault, false);
      go_on_until("rdma", 1);
      test::exchange_randomly(left(), right(), random, 20);
      if (HasFatalFailure()) return;
      EXPECT_GE(moving(left()).moves(), 2u * static_cast<unsigned>(times));
    }
    pair_ = {};
    verbs_.reset(static_cast<unsigned>(random()));
  }
  test::expect_in(book_.text(), "NICs that had failed are ready again");
}

TEST_F(Rails, AConnectionOfTwoRailsGoesOnOverTheOtherAndReturnsToBoth) {
  std::mt19937_64 random(test_seed());
  for (const Fault fault : kFaultsOfRail0) {
    SCOPED_TRACE(fmt::format("device {}, fault {}", fault.device, static_cast<int>(fault.what)));
    connect(2);
    ASSERT_EQ(left().statistics().live_streams, 3u);
    inflict(verbs_, fault, true);
    test::exchange_randomly(left(), right(), random, 20);
    go_on_until("rdma", 1);
    if (HasFatalFailure()) return;
    EXPECT_EQ(moving(left()).moves(), 1u) << "straight to the rail that works";
    EXPECT_EQ(left().route().local_nic, "rail1");
    EXPECT_EQ(right().route().local_nic, "rail1");
    inflict(verbs_, fault, false);
    test::exchange_randomly(left(), right(), random, 20);
    go_on_until("rdma", 2);
    if (HasFatalFailure()) return;
    pair_ = {};
    verbs_.reset(static_cast<unsigned>(random()));
  }
}

TEST_F(Rails, OneAfterTheOtherFailsAndOneAfterTheOtherIsBack) {
  connect(2);
  verbs_.set_link(kLeft, false);
  go_on_until("rdma", 1);
  verbs_.set_link(kRight + 1, false);
  go_on_until("tcp", 0);
  verbs_.set_link(kLeft, true);
  go_on_until("rdma", 1);
  EXPECT_EQ(left().route().local_nic, "rail0");
  verbs_.set_link(kRight + 1, true);
  go_on_until("rdma", 2);
}

// Such a NIC is one that verbs can use, so nothing else (UCX) is tried over its dead port.
TEST_F(Rails, WhatBeginsOverTcpForALackOfRailsGoesToThemOnceTheyAreThere) {
  std::mt19937_64 random(test_seed());
  for (const std::size_t device : {kLeft, kRight}) {
    SCOPED_TRACE(device == kLeft ? "of the connecting end" : "of the accepting end");
    verbs_.set_link(device, false);
    pair_ = test::connect_routers(options("left", 1, 4096), options("right", 1, 4096), 77);
    ASSERT_TRUE(pair_.first && pair_.second);
    EXPECT_EQ(left().route().transport, "tcp");
    EXPECT_EQ(right().route().transport, "tcp");
    EXPECT_EQ(left().label(), 77u);
    EXPECT_EQ(left().one_sided(), nullptr) << "as any over TCP";
    test::exchange_randomly(left(), right(), random, 20);
    verbs_.set_link(device, true);
    go_on_until("rdma", 1);
    EXPECT_EQ(moving(left()).moves(), 1u);
    test::exchange_randomly(left(), right(), random, 20);
    // And back, as any other.
    verbs_.set_link(kLeft, false);
    go_on_until("tcp", 0);
    verbs_.set_link(kLeft, true);
    go_on_until("rdma", 1);
    pair_ = {};
  }
}

TEST_F(Rails, ANicWhosePortIsDownWhenTheProcessBeginsCarriesWhatBeginsLater) {
  for (const std::size_t device : {kLeft, kRight}) {
    verbs_.set_link(device, false);
    Router from(options("left", 1, 4096)), to(options("right", 1, 4096));
    EXPECT_TRUE(from.offers().front().rdma && to.offers().front().rdma) << "best first";
    const auto listener = to.listen();
    pair_ = test::connect_pair(from, *listener);
    ASSERT_TRUE(pair_.first && pair_.second);
    EXPECT_EQ(left().route().transport, "tcp");
    exchange_bytes();
    verbs_.set_link(device, true);
    pair_ = test::connect_pair(from, *listener);
    ASSERT_TRUE(pair_.first && pair_.second);
    EXPECT_EQ(left().route().transport, "rdma");
    exchange_bytes();
    pair_ = {};
  }
  test::expect_in(book_.text(), "is active, which it is not now");
}

// Every point of moving and returning is met by chance, and by a cut after each of the first pieces of work.
TEST_F(Rails, WhateverFlapsWhereverNothingIsLost) {
  std::mt19937_64 random(test_seed());
  std::uint64_t moves = 0;
  constexpr std::size_t kMessages = 150;
  const int rounds = std::max(test_rounds(12), 5);  // each rate of faults once
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(fmt::format("round {}", round));
    const std::size_t rails = 1 + random() % 2;
    connect(rails, random() % 3 == 0 ? 100 : 4096);
    std::vector<bool> down(std::size(kFaultsOfRail0) * rails);
    if (round % 2 == 0) verbs_.cut_after(static_cast<std::size_t>(round) / 2 + 1, false);
    const std::size_t rarely = 500u << round % 5;
    test::exchange_randomly(left(), right(), random, kMessages, [&](std::size_t) {
      if (random() % rarely != 0) return;
      // More is mended than breaks.
      const auto broken = std::ranges::find(down, true);
      const bool mends = broken != down.end() && random() % 3 != 0;
      const auto which = mends ? static_cast<std::size_t>(broken - down.begin()) : random() % down.size();
      Fault fault = kFaultsOfRail0[which / rails];
      fault.device += which % rails;
      down[which] = !down[which];
      inflict(verbs_, fault, down[which]);
    });
    if (HasFatalFailure()) return;
    for (Connection* one : {&left(), &right()}) {
      EXPECT_EQ(one->statistics().messages_received, kMessages + 1);
      EXPECT_EQ(one->statistics().messages_sent, kMessages + 1);
    }
    moves += moving(left()).moves();
    pair_ = {};
    verbs_.reset(static_cast<unsigned>(random()));
  }
  const std::size_t returns = book_.count("It moved because NICs that had failed are ready again");
  EXPECT_GT(moves, static_cast<unsigned>(rounds) / 2);
  EXPECT_GT(returns, 0u) << moves << " moves";
  std::cout << moves << " moves, " << returns << " ends that returned\n";
}

// The connecting end leaves TCP only when the other has: else what that one counted as sent, and closed,
// would be gone.
TEST_F(Rails, AnEndThatClosesWhileTheOtherReturnsHasSentEverything) {
  std::mt19937_64 random(test_seed());
  std::uint64_t returned = 0;
  for (int round = 0; round < test_rounds(40); ++round) {
    connect(1);
    verbs_.set_link(kRight, false);
    go_on_until("tcp", 0);
    std::vector<std::vector<std::byte>> messages;
    std::size_t bytes = 0;
    for (int i = 0; i < 20; ++i) {
      messages.push_back(test::random_data(random, random() % 4000));
      Request* send = right().post_send(messages.back());
      ASSERT_EQ(test::finish(right(), send, bytes, &left()), Outcome::kDone);
    }
    verbs_.set_link(kRight, true);
    // The ends move in turns, so that each word between them is the last that is said at times.
    for (std::uint64_t turns = random() % 24; turns > 0; --turns) {
      const auto enough = std::chrono::steady_clock::now() + std::chrono::microseconds(1'200);
      while (std::chrono::steady_clock::now() < enough) (turns % 2 == 0 ? left() : right()).progress();
    }
    returned += moving(right()).moves() > 1;
    std::thread closing([&] { pair_.second.reset(); });
    for (const auto& message : messages) {
      std::vector<std::byte> buffer(5000);
      Request* receive = left().post_receive(buffer);
      ASSERT_EQ(test::finish(left(), receive, bytes), Outcome::kDone) << test::why_failed(left());
      ASSERT_EQ(bytes, message.size());
      ASSERT_TRUE(std::equal(message.begin(), message.end(), buffer.begin()));
    }
    closing.join();
    pair_ = {};
    verbs_.reset(static_cast<unsigned>(random()));
  }
  std::cout << returned << " of the ends had returned when they closed\n";
}

TEST_F(Rails, GpuMemoryOfEitherEndKeepsTheConnectionOnTheRailThatItReaches) {
  for (const bool at_left : {true, false}) {
    connect(2, 0);
    verbs_.set_link(kLeft, false);
    go_on_until("rdma", 1);
    std::vector<std::byte> gpu(1000);
    auto memory = (at_left ? left() : right()).register_memory(gpu, MemoryKind::kCuda);
    verbs_.set_link(kLeft, true);
    const std::uint64_t moves = moving(left()).moves();
    const auto tried = [&] { return book_.count("queue pair(s) for payload") >= 3; };
    const auto enough = Deadline::after(std::chrono::milliseconds(200));
    for (const auto deadline = test::soon(); !enough.passed() || (!at_left && !tried());) {
      ASSERT_FALSE(deadline.passed());
      exchange_bytes();
    }
    EXPECT_EQ(moving(left()).moves(), moves);
    EXPECT_EQ(left().statistics().live_streams, 2u);
    if (!at_left) {
      EXPECT_TRUE(tried()) << "the other end";
    }
    memory.reset();
    pair_ = {};
    verbs_.reset(1);
  }
}

TEST_F(Rails, AnOwnerThatMakesNoCallsHoldsNobodyUpWhoReturns) {
  for (const bool left_is_idle : {true, false}) {
    connect(1);
    verbs_.set_link(kLeft, false);
    go_on_until("tcp", 0);
    verbs_.set_link(kLeft, true);
    Connection& busy = left_is_idle ? right() : left();
    for (const auto deadline = test::soon(); busy.route().transport != "rdma";) {
      busy.progress();
      ASSERT_FALSE(deadline.passed());
    }
    exchange_bytes();
    pair_ = {};
    verbs_.reset(1);
  }
}

TEST_F(Rails, ThreadsThatSleepReturn) {
  connect(2);
  std::thread flapping([&] {
    for (int i = 0; i < 6; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      for (const std::size_t device : {kLeft, kLeft + 1}) verbs_.set_link(device, i % 2 != 0);
    }
  });
  test::expect_random_messages_both_ways(pair_, test_rounds(3'000), 5'000, 600'000);
  flapping.join();
  go_on_until("rdma", 2);
}

}  // namespace
}  // namespace tombolo::transport
