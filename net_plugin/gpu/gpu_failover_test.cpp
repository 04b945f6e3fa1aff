// Connections over NICs that reach GPU memory, whose NICs fail with that memory's messages under way: over a
// library of verbs without hardware, whose NICs write the memory of a pretended GPU.
#include "net_plugin/testing/gpu_failover.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <iostream>

namespace tombolo::net_plugin::gpu {
namespace {

TEST_F(GpuFailover, ACutAfterAnyPieceOfWorkLosesNothing) {
  std::mt19937_64 random(test_seed());
  const auto rounds = static_cast<std::size_t>(test_rounds(40));
  std::size_t moved = 0, over_tcp = 0;
  for (std::size_t piece = 1; piece <= rounds; ++piece) {
    SCOPED_TRACE(fmt::format("cut after {} pieces of work", piece));
    PretendedCudaOptions of = two_gpus();
    of.seed = random();
    of.ordered_writes = random() % 4 == 0;
    start(of, random() % 4 == 0 ? 0 : std::size_t{8} << 20, 1 + random() % 4);
    connect(1 + piece % 2);
    verbs_.cut_after(piece, piece / 2 % 2 == 0);
    exchange(10, static_cast<unsigned>(random()));
    if (HasFatalFailure()) return;
    moved += moves() > 0 ? 1 : 0;
    over_tcp += transport_of(left()) == "tcp" ? 1 : 0;
    // One end goes over first where a NIC is back.
    for (auto deadline = soon(); transport_of(left()) != transport_of(right());) {
      left().progress();
      right().progress();
      ASSERT_FALSE(deadline.passed());
    }
    pair_ = {};
    for (const std::string& breach : cuda().breaches()) ADD_FAILURE() << breach;
    staging_.reset();
    verbs_.reset(static_cast<unsigned>(random()));
  }
  EXPECT_GT(moved, rounds / 2) << "most cuts are within the traffic";
  EXPECT_GT(over_tcp, rounds / 8);
}

TEST_F(GpuFailover, AnotherNicIsGivenTheMemoryAndNothingIsStaged) {
  start(two_gpus());
  connect(2);
  bool down = false;
  exchange(30, test_seed(), [&](std::size_t received) {
    if (received > 10 && !std::exchange(down, true)) verbs_.set_link(kLeft, false);
  });
  EXPECT_GE(moves(), 1U);
  EXPECT_EQ(transport_of(left()), "rdma");
  EXPECT_EQ(cuda().copies(), 0U);
  EXPECT_GT(cuda().flushes(), 0U) << "of what the NICs had written that failed";
}

TEST_F(GpuFailover, WhereNoNicIsLeftMessagesAreStagedUntilOneIsBack) {
  start(two_gpus());
  connect(2);
  bool down = false;
  exchange(30, test_seed(), [&](std::size_t received) {
    if (received > 10 && !std::exchange(down, true))
      for (const std::size_t device : {kLeft, kLeft + 1}) verbs_.set_link(device, false);
  });
  EXPECT_EQ(transport_of(left()), "tcp");
  EXPECT_EQ(transport_of(right()), "tcp");
  const std::uint64_t moved = moves();
  EXPECT_GT(cuda().copies(), 0U);
  for (const std::size_t device : {kLeft, kLeft + 1}) verbs_.set_link(device, true);
  go_on_until("rdma", 1);
  EXPECT_GT(moves(), moved);
  const std::uint64_t copies = cuda().copies();
  exchange(30, test_seed() + 4);
  EXPECT_EQ(cuda().copies(), copies) << "nothing is staged any more";
}

TEST_F(GpuFailover, WhatBeginsStagedForALackOfNicsGoesToThemOnceTheyAreThere) {
  for (const std::size_t device : {kLeft, kRight}) {
    start(two_gpus());
    verbs_.set_link(device, false);
    connect(1);
    EXPECT_EQ(transport_of(left()), "tcp");
    exchange(10, test_seed());
    EXPECT_GT(cuda().copies(), 0U);
    verbs_.set_link(device, true);
    go_on_until("rdma", 1);
    const std::uint64_t copies = cuda().copies();
    exchange(10, test_seed() + 4);
    EXPECT_EQ(cuda().copies(), copies) << "nothing is staged any more";
    pair_ = {};
    staging_.reset();
    verbs_.reset(1);
  }
}

TEST_F(GpuFailover, AnEndThatClosesWhileItsPeerStillCopiesHasSentEverything) {
  for (int round = 0; round < test_rounds(10); ++round) {
    PretendedCudaOptions of = two_gpus();
    of.seed = test_seed() + static_cast<unsigned>(round);
    start(of);
    verbs_.set_link(kLeft, false);
    connect(1);
    EXPECT_EQ(transport_of(left()), "tcp");
    constexpr std::size_t kBytes = 3 * kPieceBytes + 100;
    auto to = std::make_unique<Buffer>(right(), kBytes, true);
    const std::vector<std::byte> bytes = data(kBytes, static_cast<unsigned>(round));
    auto* receive = right().post_receive(to->span(), to->memory());
    {
      Buffer from(left(), kBytes, true);
      from.write(bytes);
      finish(left(), left().post_send(from.span(), from.memory()), kBytes, &right());
    }
    pair_.first.reset();
    std::size_t got = 0;
    EXPECT_EQ(transport::test::finish(right(), receive, got), Outcome::kDone) << round;
    EXPECT_TRUE(to->read() == bytes);
    to.reset();  // before its connection
    pair_.second.reset();
    staging_.reset();
    verbs_.reset(1);
  }
}

// Down and up at any time, over and over: messages that one leg brings while the next takes those that
// follow.
TEST_F(GpuFailover, WhateverFlapsWheneverNothingIsLost) {
  std::mt19937_64 random(test_seed());
  std::uint64_t returned = 0;
  // On a slow machine the messages of a round may be over before a NIC is back.
  for (int round = 0; round < test_rounds(12) || (returned == 0 && round < 100); ++round) {
    SCOPED_TRACE(round);
    PretendedCudaOptions of = two_gpus();
    of.seed = random();
    start(of, random() % 4 == 0 ? 0 : std::size_t{8} << 20, 1 + random() % 4);
    streams_ = round % 3 == 0 ? 0 : 1 + static_cast<int>(random() % 4);
    connect(1 + random() % 2);
    std::size_t next = 0;
    bool up = true;
    std::string was = "rdma";
    exchange(60, static_cast<unsigned>(random()), [&](std::size_t received) {
      const std::string& now = transport_of(left());
      returned += was == "tcp" && now == "rdma" ? 1 : 0;
      was = now;
      if (received < next) return;
      next = received + 1 + random() % 12;
      up = !up;
      const std::size_t end = random() % 2 == 0 ? kLeft : kRight;
      for (const std::size_t device : {end, end + 1}) verbs_.set_link(device, up);
      if (up)
        for (const std::size_t device : {kLeft, kLeft + 1, kRight, kRight + 1}) verbs_.set_link(device, true);
    });
    if (HasFatalFailure()) return;
    pair_ = {};
    for (const std::string& breach : cuda().breaches()) ADD_FAILURE() << breach;
    staging_.reset();
    verbs_.reset(static_cast<unsigned>(random()));
  }
  EXPECT_GT(returned, 0U);
  std::cout << "returned " << returned << " times from a staged way\n";
}

// An owner that waits for one message and posts the others later: the leg that retires is needed for long.
TEST_F(GpuFailover, WhatTheStagedWayWasGivenComesOverItHoweverLateItIsReceived) {
  start(two_gpus());
  connect(1);
  verbs_.set_link(kLeft, false);
  go_on_until("tcp", 1);
  constexpr std::size_t kBytes = 2 * kPieceBytes + 10, kCount = 6;
  std::vector<std::unique_ptr<Buffer>> from, to;
  std::vector<std::vector<std::byte>> sent;
  std::vector<transport::Request*> sends, receives;
  for (std::size_t i = 0; i < kCount; ++i) {
    from.push_back(std::make_unique<Buffer>(left(), kBytes, true));
    to.push_back(std::make_unique<Buffer>(right(), kBytes, true));
    sent.push_back(data(kBytes, static_cast<unsigned>(i)));
    from.back()->write(sent.back());
  }
  const auto send = [&](std::size_t i) {
    sends.push_back(left().post_send(from[i]->span(), from[i]->memory()));
    ASSERT_NE(sends.back(), nullptr);
  };
  for (std::size_t i = 0; i < kCount / 2; ++i) send(i);
  verbs_.set_link(kLeft, true);
  for (auto deadline = soon(); transport_of(left()) != "rdma" || transport_of(right()) != "rdma";) {
    left().progress();
    right().progress();
    ASSERT_FALSE(deadline.passed());
  }
  for (std::size_t i = kCount / 2; i < kCount; ++i) send(i);
  const std::uint64_t copies = cuda().copies();
  for (std::size_t i = 0; i < kCount; ++i) {
    finish(right(), right().post_receive(to[i]->span(), to[i]->memory()), kBytes, &left());
    finish(left(), sends[i], kBytes, &right());
    if (auto* flush = right().post_flush(to[i]->span(), to[i]->memory())) {
      std::size_t none = 0;
      EXPECT_EQ(transport::test::finish(right(), flush, none, &left()), Outcome::kDone);
    }
    EXPECT_TRUE(to[i]->read() == sent[i]) << i;
  }
  EXPECT_GT(cuda().copies(), copies) << "the first were staged";
  // The way that retired can be left for a staged one again.
  from.clear();
  to.clear();
  verbs_.set_link(kRight, false);
  go_on_until("tcp", 1);
}

TEST_F(GpuFailover, ReturnsToABetterNicThatIsBack) {
  start(two_gpus());
  connect(2);
  const auto whole = left().statistics().live_streams;
  verbs_.set_link(kLeft, false);
  exchange(10, test_seed());
  ASSERT_EQ(left().statistics().live_streams, whole - 1);
  verbs_.set_link(kLeft, true);
  for (auto deadline = soon(); left().statistics().live_streams != whole;) {
    exchange(4, test_seed() + 1);
    if (HasFatalFailure()) return;
    ASSERT_FALSE(deadline.passed());
  }
  EXPECT_EQ(cuda().copies(), 0U);
}

TEST_F(GpuFailover, AHostWithoutAGpuGoesOnWithAPeerThatHasOne) {
  start({.seed = test_seed()});
  connect(1, Directions::kSend, Directions::kReceive, std::make_shared<Staging>(nullptr, 0, 4));
  constexpr std::size_t kBytes = 3 * kPieceBytes + 100;
  Buffer from(left(), kBytes, true), to(right(), kBytes, false);
  for (const bool dead : {false, true}) {
    if (dead) verbs_.set_link(kLeft, false);
    const auto bytes = data(kBytes, dead ? 1 : 2);
    from.write(bytes);
    cuda().forbid_making(true);
    auto* receive = right().post_receive(to.span(), to.memory());
    finish(left(), left().post_send(from.span(), from.memory()), kBytes, &right());
    finish(right(), receive, kBytes, &left());
    EXPECT_TRUE(to.read() == bytes);
  }
  EXPECT_EQ(transport_of(right()), "tcp");
  EXPECT_EQ(staging_->pool().reserved(), StagedConnection::kOwnPieces + 1) << "none for what only agrees";
}

TEST_F(GpuFailover, AFlushUnderWayIsDoneThoughItsNicIsDead) {
  for (const std::size_t nics : {1U, 2U}) {
    start({.seed = test_seed()});
    connect(nics);
    {
      Buffer from(left(), 1000, true), to(right(), 1000, true);
      const auto bytes = data(1000);
      from.write(bytes);
      auto* receive = right().post_receive(to.span(), to.memory());
      finish(left(), left().post_send(from.span(), from.memory()), 1000, &right());
      finish(right(), receive, 1000, &left());
      for (std::size_t device = 0; device < nics; ++device) verbs_.set_link(kRight + device, false);
      for (int i = 0; i < 2; ++i) {
        auto* flush = right().post_flush(to.span(), to.memory());
        std::size_t none = 0;
        if (flush != nullptr) {
          EXPECT_EQ(transport::test::finish(right(), flush, none, &left()), Outcome::kDone);
        }
        for (auto deadline = soon(); transport_of(right()) != "tcp" && !deadline.passed();) {
          left().progress();
          right().progress();
        }
      }
      EXPECT_TRUE(to.read() == bytes);
      EXPECT_EQ(right().post_flush(to.span(), to.memory()), nullptr) << "a copy needs none";
    }
    pair_ = {};
    staging_.reset();
    verbs_.reset(1);
  }
}

// NICs are told of such memory by a file, which the program may close.
TEST_F(GpuFailover, ADmaBufIsKeptForTheNextNic) {
  start({.seed = test_seed()});
  connect(2);
  constexpr std::size_t kBytes = 300'000;
  std::byte* gpu = cuda().allocate(kBytes);
  std::vector<std::byte> host(kBytes);
  {
    transport::Descriptor file(::memfd_create("a DMA-BUF", MFD_CLOEXEC));
    auto memory = right().register_dma_buf({gpu, kBytes}, file.get(), 0);
    file = {};
    const auto bytes = data(kBytes);
    for (const std::size_t broken : {kRight, kRight + 1}) {
      verbs_.set_link(broken, false);  // its one NIC, then both
      cuda().forbid_making(true);
      auto* receive = right().post_receive({gpu, kBytes}, memory.get());
      auto* send = left().post_send(bytes);
      finish(right(), receive, kBytes, &left());
      finish(left(), send, kBytes, &right());
      if (auto* flush = right().post_flush({gpu, kBytes}, memory.get())) {
        std::size_t none = 0;
        EXPECT_EQ(transport::test::finish(right(), flush, none, &left()), Outcome::kDone);
      }
      EXPECT_TRUE(cuda().read(gpu, kBytes) == bytes);
      EXPECT_EQ(transport_of(right()), broken == kRight ? "rdma" : "tcp");
      cuda().forbid_making(false);
    }
  }
  cuda().release(gpu);
}

TEST_F(GpuFailover, WhereOnlyNicsFlushTheConnectionFailsWithThem) {
  start({.flushes_writes = false, .seed = test_seed()});
  connect();
  {
    Buffer from(left(), 1000, true), to(right(), 1000, true);
    verbs_.set_link(kLeft, false);
    auto* send = left().post_send(from.span(), from.memory());
    EXPECT_NE(
        failure().find(
            "it does not go on over another way, since only a NIC can make GPU 0 see what it has written"),
        std::string::npos)
        << failure();
    std::size_t none = 0;
    EXPECT_EQ(left().test(send, none), Outcome::kFailed);
  }
  pair_ = {};
}

TEST_F(GpuFailover, AFlushThatCudaRefusesFailsTheConnection) {
  start({.seed = test_seed()});
  connect();
  {
    Buffer from(left(), 1000, true);
    cuda().fail_with(719);
    verbs_.set_link(kLeft, false);
    EXPECT_NE(failure().find("GPU 0: flush what NICs have written: CUDA_ERROR_LAUNCH_FAILED (719)"),
              std::string::npos)
        << failure();
  }
  pair_ = {};
  cuda().fail_with(0);
}

}  // namespace
}  // namespace tombolo::net_plugin::gpu
