// Staged connections over loopback TCP, UCX, shared memory and memory.
#include "net_plugin/gpu/staged_connection.h"

#include <gtest/gtest.h>

#include <future>

#include "net_plugin/testing/staged_connections.h"

namespace tombolo::net_plugin::gpu {
namespace {

/// What must be so over every transport that carries the pieces.
class StagedOver : public StagedConnections, public ::testing::WithParamInterface<TestedBackend> {
 protected:
  void SetUp() override {
    if (const std::string why = why_not(GetParam()); !why.empty()) GTEST_SKIP() << why;
  }
};

INSTANTIATE_TEST_SUITE_P(All, StagedOver,
                         testing::Values(memory(), tcp(), shm(TestedBackend::Shm::kFetch), ucx()),
                         [](const auto& tested) { return tested.param.name; });

TEST_F(StagedConnections, MemoryOfNoContextIsCopiedWhileTheProgramsOwnCallsWait) {
  start({.seed = test_seed()});
  auto ends = connect(tcp());
  constexpr std::size_t kBytes = 5 * kPieceBytes;
  Buffer from(*ends.from, kBytes, true), to(*ends.to, kBytes, true);
  const auto bytes = data(kBytes);
  from.write(bytes);
  cuda().let_program_wait(true);
  auto* receive = ends.to->post_receive(to.span(), to.memory());
  auto* send = ends.from->post_send(from.span(), from.memory());
  finish(*ends.to, receive, kBytes, ends.from.get());
  finish(*ends.from, send, kBytes, ends.to.get());
  EXPECT_TRUE(to.read() == bytes);
  ends = {};
  cuda().let_program_wait(false);
  EXPECT_EQ(logged_, "");
}

TEST_P(StagedOver, WhatCameBeforeThePeerClosedIsReceivedThoughItsCopiesTakeLonger) {
  PretendedCudaOptions options;
  options.seed = test_seed();
  options.pace = PretendedPace::kNever;
  start(options, std::size_t{64} << 20, 1);
  auto ends = connect(GetParam());
  constexpr std::size_t kBytes = 3 * kPieceBytes + 100;
  Buffer from(*ends.from, kBytes, false), to(*ends.to, kBytes, true), more(*ends.to, 8, true);
  const auto bytes = data(kBytes);
  from.write(bytes);
  auto* receive = ends.to->post_receive(to.span(), to.memory());
  auto* never = ends.to->post_receive(more.span(), more.memory());
  finish(*ends.from, ends.from->post_send(from.span(), from.memory()), kBytes, ends.to.get());
  ends.from.reset();
  for (auto deadline = soon(); ends.to->error() == nullptr; ends.to->progress())
    ASSERT_FALSE(deadline.passed());
  std::size_t moved = 0;
  EXPECT_EQ(ends.to->test(receive, moved), Outcome::kPending) << "its copies are under way";
  cuda().set_pace(PretendedPace::kRandom);
  finish(*ends.to, receive, kBytes);
  EXPECT_TRUE(to.read() == bytes);
  auto outcome = Outcome::kPending;
  for (auto deadline = soon(); outcome == Outcome::kPending; outcome = ends.to->test(never, moved))
    ASSERT_FALSE(deadline.passed());
  EXPECT_EQ(outcome, Outcome::kFailed);
}

TEST_P(StagedOver, WhatCameBeforeThePeerClosedIsReceivedThoughItsReceivesComeLater) {
  start({.seed = test_seed()});
  auto ends = connect(GetParam());
  constexpr std::size_t kBytes = 100, kCount = StagedConnection::kOwnPieces;
  Buffer from(*ends.from, kBytes, false), to(*ends.to, kBytes, true), also_to(*ends.to, kBytes, true);
  const auto bytes = data(kBytes);
  from.write(bytes);
  for (std::size_t i = 0; i < kCount; ++i)
    finish(*ends.from, ends.from->post_send(from.span(), from.memory()), kBytes, ends.to.get());
  ends.from.reset();
  for (auto deadline = soon(); !ends.to->peer_ended(); ends.to->progress()) ASSERT_FALSE(deadline.passed());
  for (int i = 0; i < 10; ++i) ends.to->progress();
  EXPECT_EQ(ends.to->error(), nullptr) << "it is behind the messages";
  auto* first = ends.to->post_receive(to.span(), to.memory());
  auto* second = ends.to->post_receive(also_to.span(), also_to.memory());
  finish(*ends.to, first, kBytes);
  finish(*ends.to, second, kBytes);
  EXPECT_TRUE(to.read() == bytes);
  EXPECT_TRUE(also_to.read() == bytes);
  for (auto deadline = soon(); ends.to->error() == nullptr; ends.to->progress())
    ASSERT_FALSE(deadline.passed());
  EXPECT_EQ(ends.to->post_receive(to.span(), to.memory()), nullptr);
}

TEST_F(StagedConnections, CopiesInTheProgramsContextAreToldOnceWithWhatAvoidsThem) {
  for (const bool contexts : {true, false}) {
    logged_.clear();
    start({.contexts = contexts, .seed = test_seed()});
    {
      auto ends = connect(tcp());
      const MemoryOf of = contexts ? MemoryOf::kPrimaryContext : MemoryOf::kNoContext;
      Buffer from(*ends.from, 100, true, 0, of), to(*ends.to, 100, true, 0, of);
      const auto bytes = data(100);
      from.write(bytes);
      auto* receive = ends.to->post_receive(to.span(), to.memory());
      finish(*ends.from, ends.from->post_send(from.span(), from.memory()), 100, ends.to.get());
      finish(*ends.to, receive, 100, ends.from.get());
      EXPECT_TRUE(to.read() == bytes);
    }
    staging_.reset();
    EXPECT_NE(logged_.find(contexts ? "the memory is not of cuMemCreate"
                                    : "make a context for copies: CUDA_ERROR_OUT_OF_MEMORY"),
              std::string::npos)
        << logged_;
    EXPECT_NE(logged_.find("CUDA_MODULE_LOADING=EAGER"), std::string::npos) << logged_;
    EXPECT_EQ(logged_.find("GPU 0: copies"), logged_.rfind("GPU 0: copies")) << "once: " << logged_;
  }
}

TEST_F(StagedConnections, APoolOfTheMinimumServesAllThoughSomeWait) {
  PretendedCudaOptions options;
  options.seed = test_seed();
  start(options, 0, 1);
  constexpr std::size_t kBytes = 10 * kPieceBytes;
  std::vector<Ends> all;
  for (int i = 0; i < 6; ++i) all.push_back(connect(tcp()));
  ASSERT_EQ(staging_->pool().pieces(), 6 * 2 * StagedConnection::kOwnPieces);
  const auto bytes = data(kBytes);
  std::vector<std::unique_ptr<Buffer>> from, to;
  std::vector<transport::Request*> sends;
  for (Ends& ends : all) {
    from.push_back(std::make_unique<Buffer>(*ends.from, kBytes, true));
    to.push_back(std::make_unique<Buffer>(*ends.to, kBytes, true));
    from.back()->write(bytes);
    sends.push_back(ends.from->post_send(from.back()->span(), from.back()->memory()));
  }
  // The first five wait for a receive with all the pieces that they can get.
  const auto advance = [&] {
    for (Ends& ends : all) {
      ends.from->progress();
      ends.to->progress();
    }
  };
  for (int i = 0; i < 300; ++i) advance();
  for (std::size_t i = all.size(); i-- > 0;) {
    auto* receive = all[i].to->post_receive(to[i]->span(), to[i]->memory());
    ASSERT_NE(receive, nullptr);
    std::size_t moved = 0;
    for (auto deadline = soon(); all[i].to->test(receive, moved) != Outcome::kDone; advance())
      ASSERT_FALSE(deadline.passed()) << "connection " << i;
    EXPECT_TRUE(to[i]->read() == bytes);
    finish(*all[i].from, sends[i], kBytes);
  }
}

TEST_P(StagedOver, ADoneSendNeedsNoFurtherCallToArrive) {
  start({});
  auto ends = connect(GetParam());
  for (const std::size_t size : {std::size_t{8}, kPieceBytes - 1, kPieceBytes, 5 * kPieceBytes + 77}) {
    Buffer from(*ends.from, size, true), to(*ends.to, size, true);
    const auto bytes = data(size);
    from.write(bytes);
    auto* receive = ends.to->post_receive(to.span(), to.memory());
    finish(*ends.from, ends.from->post_send(from.span(), from.memory()), size, ends.to.get());
    from.write(data(size, 2));  // the buffer is the sender's again
    finish(*ends.to, receive, size);
    EXPECT_TRUE(to.read() == bytes) << size << " bytes";
  }
}

TEST_F(StagedConnections, AHostWithoutAGpuStagesForAPeerThatHasOne) {
  start({});
  auto [near, far] = transport::test::make_connected(memory());
  StagedConnection from(std::move(near), Directions::kSend, staging_, log());
  StagedConnection to(std::move(far), Directions::kReceive, std::make_shared<Staging>(nullptr, 0, 4), log());
  Buffer out(from, 3 * kPieceBytes, true), in(to, 3 * kPieceBytes, false);
  const auto bytes = data(3 * kPieceBytes);
  out.write(bytes);
  auto* receive = to.post_receive(in.span(), nullptr);
  finish(from, from.post_send(out.span(), out.memory()), bytes.size(), &to);
  finish(to, receive, bytes.size(), &from);
  EXPECT_TRUE(in.read() == bytes);
  try {
    to.register_memory(in.span(), MemoryKind::kCuda);
    FAIL() << "there is no GPU";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kUnsupported) << error.what();
  }
}

TEST_F(StagedConnections, HostMemoryIsNotTakenForAGpus) {
  start({});
  auto ends = connect();
  std::vector<std::byte> host(100);
  try {
    ends.from->register_memory(host, MemoryKind::kCuda);
    FAIL() << "it is host memory";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
    EXPECT_NE(std::string(error.what()).find("said to be GPU memory"), std::string::npos) << error.what();
  }
}

TEST_P(StagedOver, AMessageLargerThanItsReceiveIsAnErrorThatNamesBothSizes) {
  start({});
  auto ends = connect(GetParam());
  Buffer from(*ends.from, 2000, true), to(*ends.to, 1999, true);
  ends.from->post_send(from.span(), from.memory());
  auto* receive = ends.to->post_receive(to.span(), to.memory());
  std::size_t bytes = 0;
  ASSERT_EQ(transport::test::finish(*ends.to, receive, bytes, ends.from.get()), Outcome::kFailed);
  EXPECT_EQ(ends.to->error()->cause(), Cause::kRemote);
  EXPECT_NE(
      std::string(ends.to->error()->what()).find("2000 bytes, but the receive posted for it takes 1999"),
      std::string::npos)
      << ends.to->error()->what();
  EXPECT_EQ(to.read(), std::vector<std::byte>(1999, std::byte{0xa5}));
  EXPECT_EQ(ends.to->post_receive(to.span(), to.memory()), nullptr);
}

// The pieces behind the end of a receive are taken, and thrown away.
TEST_P(StagedOver, AMessageLargerThanItsReceiveIsCutWhereThatIsAsked) {
  start({});
  auto ends = connect(GetParam(), Directions::kSend, Directions::kReceive, transport::Overlong::kTruncate);
  for (const bool on_gpu : {true, false}) {
    for (const auto& [sent, room] : {std::pair<std::size_t, std::size_t>{2000, 1999},
                                     {3 * kPieceBytes, kPieceBytes},
                                     {5 * kPieceBytes + 7, kPieceBytes + 9},
                                     {2 * kPieceBytes, 0},
                                     {10, 20}}) {
      Buffer from(*ends.from, sent, true), to(*ends.to, room, on_gpu), next(*ends.to, 30, on_gpu);
      from.write(data(sent));
      auto* first = ends.from->post_send(from.span(), from.memory());
      auto* second = ends.from->post_send(from.span().first(10), from.memory());
      auto* receive = ends.to->post_receive(to.span(), to.memory());
      auto* after = ends.to->post_receive(next.span(), next.memory());
      finish(*ends.to, receive, std::min(sent, room), ends.from.get());
      finish(*ends.to, after, 10, ends.from.get());
      finish(*ends.from, first, sent, ends.to.get());
      finish(*ends.from, second, 10, ends.to.get());
      auto wanted = data(sent);
      auto got = to.read();
      wanted.resize(std::min(sent, room));
      got.resize(wanted.size());
      EXPECT_EQ(got, wanted) << sent << " into " << room;
    }
  }
}

TEST_F(StagedConnections, ACopyThatCudaRefusesFailsTheConnectionAndNamesTheGpu) {
  PretendedCudaOptions options;
  options.gpus = 2;
  start(options);
  auto ends = connect();
  Buffer from(*ends.from, 4 * kPieceBytes, true, 1);
  auto* sent = ends.from->post_send(from.span(), from.memory());
  cuda().fail_with(719);
  std::size_t bytes = 0;
  ASSERT_EQ(transport::test::finish(*ends.from, sent, bytes, ends.to.get()), Outcome::kFailed);
  EXPECT_NE(std::string(ends.from->error()->what()).find("from GPU 1: CUDA_ERROR_LAUNCH_FAILED (719)"),
            std::string::npos)
      << ends.from->error()->what();
  ends.from.reset();
  cuda().fail_with(0);
}

TEST_F(StagedConnections, ARequestFailsOnlyOnceNoCopyTouchesItsBuffer) {
  PretendedCudaOptions options;
  options.pace = PretendedPace::kNever;
  start(options);
  auto ends = connect();
  Buffer from(*ends.from, 100, false);
  auto to = std::make_unique<Buffer>(*ends.to, 100, true);
  auto* receive = ends.to->post_receive(to->span(), to->memory());
  finish(*ends.from, ends.from->post_send(from.span(), from.memory()), 100, ends.to.get());
  for (int i = 0; i < 10; ++i) ends.to->progress();  // its copy is queued
  ends.from.reset();                                 // the peer goes
  std::size_t bytes = 0;
  for (int i = 0; i < 100; ++i) ASSERT_EQ(ends.to->test(receive, bytes), Outcome::kPending);
  cuda().set_pace(PretendedPace::kRandom);
  const Outcome outcome = transport::test::finish(*ends.to, receive, bytes);
  EXPECT_NE(outcome, Outcome::kPending);
  to.reset();  // a copy under way would be a breach
}

TEST_F(StagedConnections, ClosingWaitsForTheCopiesUnderWay) {
  PretendedCudaOptions options;
  options.pace = PretendedPace::kNever;
  start(options);
  auto ends = connect();
  auto from = std::make_unique<Buffer>(*ends.from, 8 * kPieceBytes, true);
  ends.from->post_send(from->span(), from->memory());
  ASSERT_GT(cuda().most_copies_to_host(), 0U);
  auto closing = std::async(std::launch::async, [&] { ends.from.reset(); });
  EXPECT_EQ(closing.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  cuda().set_pace(PretendedPace::kRandom);
  closing.get();
  from.reset();  // a copy under way would be a breach
  EXPECT_EQ(logged_, "");
}

TEST_F(StagedConnections, SayWhetherAMessageWaitsForTheGpuOrForTheTransport) {
  PretendedCudaOptions options;
  options.pace = PretendedPace::kNever;
  start(options);
  auto ends = connect(tcp());
  Buffer from(*ends.from, 10, true), to(*ends.to, 10, true);
  auto* receive = ends.to->post_receive(to.span(), to.memory());
  ends.to->progress();
  EXPECT_EQ(ends.to->way_of(receive).waits, WaitsFor::kStagedPiece) << "nothing was sent";
  auto* send = ends.from->post_send(from.span(), from.memory());
  ends.from->progress();
  EXPECT_EQ(ends.from->way_of(send).waits, WaitsFor::kGpuCopy);
  cuda().set_pace(PretendedPace::kEarly);
  finish(*ends.from, send, 10);
  cuda().set_pace(PretendedPace::kNever);
  for (auto deadline = soon(); ends.to->way_of(receive).waits != WaitsFor::kGpuCopy; ends.to->progress())
    ASSERT_FALSE(deadline.passed());
  cuda().set_pace(PretendedPace::kEarly);
  finish(*ends.to, receive, 10);
}

TEST_F(StagedConnections, MemoryIsLeftToACopyThatDoesNotEnd) {
  PretendedCudaOptions options;
  options.pace = PretendedPace::kNever;
  start(options, std::size_t{64} << 20, 4, std::chrono::milliseconds(5));
  memory_given_up_ = true;
  auto ends = connect();
  Buffer from(*ends.from, 1000, true);
  ends.from->post_send(from.span(), from.memory());
  ends.from.reset();
  EXPECT_NE(logged_.find("a copy of 1000 bytes from GPU 0 has been under way for more than"),
            std::string::npos)
      << logged_;
  ends.to.reset();
  staging_.reset();
  EXPECT_EQ(cuda().holdings().host_allocations, 1);
  cuda().set_pace(PretendedPace::kEarly);
  cuda().reset();  // the copy ends now, in memory that is still there
}

TEST_F(StagedConnections, OnlyTheCopiesOfTheBudgetAreUnderWay) {
  PretendedCudaOptions options;
  options.pace = PretendedPace::kNever;
  start(options, std::size_t{64} << 20, 3);
  std::vector<Ends> all;
  std::vector<std::unique_ptr<Buffer>> from;
  for (int i = 0; i < 3; ++i) {
    all.push_back(connect());
    from.push_back(std::make_unique<Buffer>(*all.back().from, 20 * kPieceBytes, true));
    all.back().from->post_send(from.back()->span(), from.back()->memory());
    all.back().from->progress();
  }
  EXPECT_EQ(cuda().most_copies_to_host(), 3U);
  cuda().set_pace(PretendedPace::kEarly);
  for (Ends& ends : all) ends.from.reset();
}

}  // namespace
}  // namespace tombolo::net_plugin::gpu
