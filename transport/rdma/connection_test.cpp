// What RDMA adds to the contract that testing/conformance.h checks, and how it fails, over a library without
// hardware. tests/rdma_vm has it over the kernel's software RoCE.
#include "transport/rdma/connection.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/error.h"
#include "transport/testing/pretended_rdma.h"
#include "transport/testing/test_messages.h"

namespace tombolo::transport::rdma {
namespace {

using test::PretendedVerbs;

class Rdma : public testing::Test {
 protected:
  void SetUp() override {
    verbs_.reset(test_seed());
    live_ = verbs_.live();
  }
  void TearDown() override {
    pair_.first.reset();
    pair_.second.reset();
    EXPECT_EQ(verbs_.registered(), 0u);
    fabric_.reset();
    EXPECT_EQ(verbs_.live(), live_) << "all that was made is given back";
    verbs_.reset(1);
  }
  void connect(std::size_t nics = 1, const RdmaOptions& options = test::pretended_options(),
               const Clock& clock = Clock::steady()) {
    fabric_ = std::make_unique<test::PretendedFabric>(nics);
    pair_ = fabric_->connect(options, options, clock);
    ASSERT_TRUE(pair_.first && pair_.second);
  }
  Connection& left() { return *pair_.first; }
  Connection& right() { return *pair_.second; }
  /// Moves both until the one has failed.
  std::string failure_of(Connection& one, Cause cause) {
    for (const auto deadline = test::soon(); one.error() == nullptr && !deadline.passed();) {
      left().progress();
      right().progress();
    }
    if (one.error() == nullptr) return "no failure";
    EXPECT_EQ(one.error()->cause(), cause) << one.error()->what();
    return one.error()->what();
  }

  PretendedVerbs& verbs_ = PretendedVerbs::instance();
  std::size_t live_ = 0;
  FakeClock clock_;
  std::unique_ptr<test::PretendedFabric> fabric_;
  test::Pair pair_;
};

TEST_F(Rdma, RandomMessagesBothWaysArriveWholeBetweenSleepingThreads) {
  for (const std::size_t nics : {1, 2}) {
    connect(nics, test::pretended_options(nics == 1 ? 1 : 3));
    test::expect_random_messages_both_ways(pair_, test_rounds(300), 5'000, 600'000);
    if (HasFatalFailure()) return;
  }
}

// A NIC's longest message may be shorter than a part.
TEST_F(Rdma, PartsGoInAsManyPiecesAsTheNicsNeed) {
  std::mt19937_64 random(test_seed());
  verbs_.longest_message = 10'000;
  connect(2, test::pretended_options(2, 100));
  for (const std::size_t size : {101, 9'999, 10'000, 10'001, 300'000, 2'000'003}) {
    const auto data = test::random_data(random, size);
    std::vector<std::byte> buffer(size + 5);
    test::expect_carried(left(), right(), data, buffer);
    test::expect_carried(right(), left(), data, buffer);
  }
}

TEST_F(Rdma, NicsOfUnlikeRatesTakeUnlikePartsAndAllArrivesWhole) {
  std::mt19937_64 random(test_seed());
  verbs_.set_speed(0, 32);                         // 100 Gbit/s, this end's
  verbs_.set_speed(1, 4);                          // 40
  connect(2, test::pretended_options(2), clock_);  // whose time stands still, so that nothing is learned
  constexpr std::size_t kBytes = 7'000'000;
  const auto data = test::random_data(random, kBytes);
  std::vector<std::byte> buffer(kBytes);
  test::expect_carried(left(), right(), data, buffer);
  std::map<std::string, double> moved;
  for (const ConnectionReading& one : fabric_->meters->read().connections)
    for (const StreamReading& stream : one.streams)
      moved[stream.local_nic] += static_cast<double>(stream.sent_bytes);
  EXPECT_NEAR(moved.at("nic0"), kBytes * 5.0 / 7, 50'000);
  EXPECT_NEAR(moved.at("nic1"), kBytes * 2.0 / 7, 50'000);
}

TEST_F(Rdma, RegisteredMemoryIsSentFromAndReceivedInto) {
  std::mt19937_64 random(test_seed());
  connect(2, test::pretended_options(2));
  test::expect_registered_memory_is_used(pair_, random);
}

TEST_F(Rdma, WhatIsRegisteredForOneOperationGoesWithIt) {
  connect(1);
  const std::size_t before = verbs_.registered();
  std::vector<std::byte> data(500'000), buffer(500'000);
  test::expect_carried(left(), right(), data, buffer);
  EXPECT_EQ(verbs_.registered(), before);
  // A receive for which a small message came was registered in vain.
  test::expect_carried(left(), right(), std::span(data).first(10), buffer);
  EXPECT_EQ(verbs_.registered(), before);
}

TEST_F(Rdma, ABufferOutsideItsRegistrationIsRefusedByName) {
  connect(1);
  test::expect_a_buffer_outside_its_registration_is_refused(pair_);
}

TEST_F(Rdma, GpuMemoryIsNotTakenWhileTheProcessorCopies) {
  connect(1);
  std::vector<std::byte> buffer(1000);
  const auto refusal = [&](const auto& action) -> std::string {
    try {
      action();
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kUnsupported);
      return error.what();
    }
    return "taken";
  };
  test::expect_in(refusal([&] { left().register_memory(buffer, MemoryKind::kCuda); }),
                  "TOMBOLO_RDMA_EAGER=0");
  test::expect_in(refusal([&] { left().register_dma_buf(buffer, STDERR_FILENO, 0); }),
                  "TOMBOLO_RDMA_EAGER=0");
  connect(1, test::pretended_options(1, 0));
  EXPECT_NE(left().register_dma_buf(buffer, STDERR_FILENO, 0), nullptr);
  EXPECT_NE(left().register_memory(buffer, MemoryKind::kCuda), nullptr);
}

TEST_F(Rdma, AFlushReadsBackWithEveryNicAndOnlyFromGpuMemory) {
  for (const std::size_t nics : {1, 2}) {
    connect(nics, test::pretended_options(nics == 1 ? 1 : 3, 0));
    std::vector<std::byte> gpu(300'000), host(1000);
    for (const bool dma_buf : {false, true}) {
      const auto memory = dma_buf ? right().register_dma_buf(gpu, STDERR_FILENO, 0)
                                  : right().register_memory(gpu, MemoryKind::kCuda);
      const auto host_memory = right().register_memory(host, MemoryKind::kHost);
      const std::size_t before = verbs_.reads();
      EXPECT_EQ(right().post_flush(host, host_memory.get()), nullptr);
      EXPECT_EQ(right().post_flush(host, nullptr), nullptr);
      EXPECT_EQ(right().post_flush(std::span(gpu).first(0), memory.get()), nullptr) << "nothing was written";
      EXPECT_EQ(verbs_.reads(), before);
      // As many as there may be, tested in any order, while messages are under way.
      std::vector<Request*> all;
      for (std::uint32_t i = 0; i < Flusher::kMost; ++i)
        all.push_back(right().post_flush(std::span(gpu).subspan(i, 1000), memory.get()));
      test::expect_carried(left(), right(), host, gpu);
      std::ranges::shuffle(all, std::mt19937(test_seed()));
      for (Request* one : all) {
        ASSERT_NE(one, nullptr);
        std::size_t bytes = 7;
        ASSERT_EQ(test::finish(right(), one, bytes), Outcome::kDone);
        EXPECT_EQ(bytes, 0u);
      }
      EXPECT_EQ(verbs_.reads() - before, nics * Flusher::kMost);
    }
    pair_ = {};
  }
}

TEST_F(Rdma, AFlushThatTheNicDoesNotDoFailsTheConnectionByName) {
  connect(2, test::pretended_options(1, 0));
  std::vector<std::byte> gpu(1000);
  auto memory = right().register_memory(gpu, MemoryKind::kCuda);
  verbs_.silence();
  Request* flush = right().post_flush(gpu, memory.get());
  ASSERT_NE(flush, nullptr);
  std::size_t bytes = 0;
  EXPECT_EQ(test::finish(right(), flush, bytes), Outcome::kFailed);
  test::expect_in(right().error()->what(), "did not read back what it wrote to GPU memory");
  EXPECT_EQ(right().post_flush(gpu, memory.get()), nullptr);
  memory.reset();
  pair_ = {};
  verbs_.reset(1);

  connect(1, test::pretended_options(1, 0));
  memory = right().register_memory(gpu, MemoryKind::kCuda);
  verbs_.refuse("post_send", ENOMEM);
  EXPECT_EQ(right().post_flush(gpu, memory.get()), nullptr);
  ASSERT_NE(right().error(), nullptr);
  test::expect_in(right().error()->what(), "takes no read that would flush");
  memory.reset();
}

TEST_F(Rdma, AFlushForWhichTheDeviceHasNoQueuePairIsARegistrationThatFails) {
  connect(2, test::pretended_options(1, 0));
  std::vector<std::byte> gpu(1000);
  for (const auto& [function, after] : {std::pair{"reg_mr", 1}, std::pair{"create_cq", 1},
                                        std::pair{"create_qp", 0}, std::pair{"modify_qp", 4}}) {
    const std::size_t before = verbs_.live();
    verbs_.refuse(function, ENOMEM, after);
    EXPECT_THROW(right().register_memory(gpu, MemoryKind::kCuda), Error) << function;
    EXPECT_EQ(verbs_.live(), before) << function;
  }
  EXPECT_NE(right().register_memory(gpu, MemoryKind::kCuda), nullptr);
}

TEST_F(Rdma, WhatCountedAsSentArrivesThoughTheSenderClosedSince) {
  connect(2, test::pretended_options(2));
  test::expect_sent_messages_outlive_their_sender(std::move(pair_), 500'000);
}

// More small messages than there are slots, to a peer that posts its receives late: the sender is held back,
// and no slot is lost over many laps.
TEST_F(Rdma, ASenderThatRunsAheadIsHeldBackAndLosesNothing) {
  connect(1);
  constexpr std::uint64_t kMessages = 1000;
  std::vector<std::uint64_t> values(kMessages), got(kMessages);
  std::vector<Request*> sends;
  std::size_t done = 0, bytes = 0;
  const auto push = [&] {
    while (sends.size() < kMessages) {
      values[sends.size()] = sends.size();
      Request* send = left().post_send(std::as_bytes(std::span(values).subspan(sends.size(), 1)));
      if (send == nullptr) break;
      sends.push_back(send);
    }
    while (done < sends.size() && left().test(sends[done], bytes) == Outcome::kDone) ++done;
  };
  for (int turn = 0; turn < 500; ++turn) {
    push();
    right().progress();
  }
  EXPECT_EQ(done, kEagerSlots) << "nothing was received yet";
  for (std::uint64_t i = 0; i < kMessages; ++i) {
    Request* receive = right().post_receive(std::as_writable_bytes(std::span(got).subspan(i, 1)));
    Outcome outcome = Outcome::kPending;
    for (const auto deadline = test::soon(); outcome == Outcome::kPending && !deadline.passed(); push())
      outcome = right().test(receive, bytes);
    ASSERT_EQ(outcome, Outcome::kDone) << i << ": " << test::why_failed(right());
  }
  EXPECT_EQ(got, values);
  for (const auto deadline = test::soon(); done < kMessages && !deadline.passed();) push();
  EXPECT_EQ(done, kMessages);
}

// ---- failures

TEST_F(Rdma, APeersNicThatAcknowledgesNothingIsATimeoutThatNamesIt) {
  connect(1);
  std::vector<std::byte> data(10);
  verbs_.silence();
  left().post_send(data);
  const std::string text = failure_of(left(), Cause::kTimeout);
  test::expect_in(
      text, "queue pair 0 of RDMA device pretended0: the peer's NIC (nic0) acknowledged nothing, 8 tries");
  test::expect_in(failure_of(right(), Cause::kRemote), "a failure of its own: ");
}

TEST_F(Rdma, AnEventOfThePortBeforeIsToldWithTheFailure) {
  connect(1);
  std::vector<std::byte> data(10);
  verbs_.raise("pretended0", IBV_EVENT_PORT_ERR);
  verbs_.silence();
  left().post_send(data);
  test::expect_in(failure_of(left(), Cause::kTimeout), "; port 1 of pretended0 went down before that");
}

TEST_F(Rdma, AFatalEventFailsTheConnectionThoughNothingIsUnderWay) {
  connect(1);
  std::vector<std::byte> buffer(10);
  Request* receive = left().post_receive(buffer);
  verbs_.raise("pretended0", IBV_EVENT_DEVICE_FATAL);
  test::expect_in(failure_of(left(), Cause::kSystem), "RDMA device pretended0 reported a fatal error");
  std::size_t bytes = 0;
  EXPECT_EQ(left().test(receive, bytes), Outcome::kFailed);
}

TEST_F(Rdma, AFatalEventOfAQueuePairIsNamed) {
  connect(1);
  verbs_.raise("pretended2", IBV_EVENT_QP_FATAL);
  test::expect_in(failure_of(right(), Cause::kSystem), "RDMA device pretended2: a pretended event");
  test::expect_in(failure_of(left(), Cause::kRemote), "a failure of its own");
}

TEST_F(Rdma, ACompletionQueueThatCannotBeReadFailsTheConnection) {
  connect(1);
  verbs_.refuse("poll_cq", EIO);
  left().progress();
  test::expect_in(failure_of(left(), Cause::kSystem),
                  "RDMA device pretended0 refuses to tell its completions");
}

TEST_F(Rdma, WhatTheNicRefusesToPostFailsBothEndsAndTouchesNoBuffer) {
  std::vector<std::byte> large(500'000, std::byte{1}), small(10), buffer(500'000);
  for (const bool is_large : {false, true}) {
    connect(1);
    right().post_receive(buffer);
    for (int turn = 0; turn < 100; ++turn) {
      left().progress();
      right().progress();
    }
    verbs_.refuse("post_send", EIO);
    left().post_send(is_large ? large : small);
    test::expect_in(failure_of(left(), Cause::kSystem),
                    is_large ? "post a write of 500000 bytes to RDMA device pretended0: Input/output error"
                             : "post a send to RDMA device pretended0: Input/output error");
    test::expect_in(failure_of(right(), Cause::kRemote), "a failure of its own");
    EXPECT_EQ(std::ranges::count(buffer, std::byte{0}), static_cast<std::ptrdiff_t>(buffer.size()));
  }
}

TEST_F(Rdma, MemoryThatCannotBeRegisteredFailsTheOperationByName) {
  std::vector<std::byte> large(500'000);
  connect(1);
  verbs_.refuse("reg_mr", ENOMEM);
  std::size_t bytes = 0;
  Request* receive = left().post_receive(large);
  ASSERT_NE(receive, nullptr);
  EXPECT_EQ(left().test(receive, bytes), Outcome::kFailed);
  test::expect_in(test::why_failed(left()), "ulimit -l");
  test::expect_in(failure_of(right(), Cause::kRemote), "ulimit -l");
}

// Once a request has failed its buffer is the user's again, whatever the network still does.
TEST_F(Rdma, NothingIsWrittenToAReceiveOnceItsConnectionIsGone) {
  std::vector<std::byte> large(1'000'000, std::byte{1});
  for (int round = 0; round < test_rounds(30); ++round) {
    connect(1, test::pretended_options(4));
    std::vector<std::byte> buffer(large.size());
    right().post_receive(buffer);
    left().post_send(large);
    for (int turn = 0; turn < round; ++turn) {
      left().progress();
      right().progress();
    }
    pair_.second.reset();
    std::ranges::fill(buffer, std::byte{2});
    for (int turn = 0; turn < 50; ++turn) left().progress();
    ASSERT_EQ(std::ranges::count(buffer, std::byte{2}), static_cast<std::ptrdiff_t>(buffer.size()));
    pair_.first.reset();
  }
}

TEST_F(Rdma, APeerThatTakesNothingIsGivenUpAfterTenIdleTimeouts) {
  connect(1, test::pretended_options(), clock_);
  std::vector<std::byte> large(500'000);
  left().post_send(large);
  const auto look = [&] {
    for (int turn = 0; turn < 5000; ++turn) left().progress();
  };
  look();
  clock_.advance(std::chrono::seconds(99));
  look();
  EXPECT_EQ(left().error(), nullptr);
  clock_.advance(std::chrono::seconds(1));
  look();
  test::expect_in(failure_of(left(), Cause::kTimeout),
                  "the peer took nothing for 100 s, while sending message 0");
}

}  // namespace
}  // namespace tombolo::transport::rdma
