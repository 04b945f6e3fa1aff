// What UCX adds to the contract that testing/conformance.h checks; over UCX's tcp on loopback. Peers that die
// are in tests/process/ucx_process_test.cpp: a process that has used UCX must not fork.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <csignal>
#include <deque>
#include <thread>

#include "base/randomized_test.h"
#include "transport/testing/control_channels.h"
#include "transport/testing/test_messages.h"
#include "transport/ucx/agreed.h"
#include "transport/ucx/closing_workers.h"
#include "transport/ucx/connection.h"

namespace tombolo::transport::ucx {
namespace {

constexpr const char* kTransports = "tcp,self,sm";

class Ucx : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string problem = test::why_no_ucx(); !problem.empty()) GTEST_SKIP() << problem;
  }
  static test::Pair connect() {
    return test::make_connected({"Ucx", false, {}, test::TestedBackend::Shm::kNo, 0, {}, kTransports});
  }
  /// What the attempt to connect fails with.
  static std::string refusal(const RouterOptions& from, const RouterOptions& to) {
    Router left(from), right(to);
    auto listener = right.listen();
    try {
      ConnectOptions options;
      options.deadline = std::chrono::seconds(20);
      auto connecting = left.connect(Endpoint::decode(listener->endpoint().encode()), options);
      for (auto deadline = test::soon(); !deadline.passed(); test::wait_on(*connecting, *listener)) {
        if (connecting->poll()) return "connected";
        EXPECT_FALSE(listener->accept());
      }
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing came of it";
  }
  std::mt19937_64 random_{test_seed()};
};

TEST_F(Ucx, TheRouteSaysSoAndWhy) {
  auto pair = connect();
  EXPECT_EQ(pair.first->route().transport, "ucx");
  EXPECT_EQ(pair.second->route().transport, "ucx");
  test::expect_in(pair.first->route().reason, "TOMBOLO_TRANSPORTS names ucx, and not tcp");
}

TEST_F(Ucx, BesideTcpItIsNotTakenForPlainNics) {
  RouterOptions both[] = {test::ucx_router_options("left", kTransports),
                          test::ucx_router_options("right", kTransports)};
  for (RouterOptions& one : both) one.policy.transports = {"ucx", "tcp"};
  Router left(both[0]), right(both[1]);
  auto listener = right.listen();
  EXPECT_TRUE(listener->endpoint().can(Carrier::kUcx));
  auto pair = test::connect_pair(left, *listener);
  EXPECT_EQ(pair.first->route().transport, "tcp");
}

TEST_F(Ucx, AProcessThatWasNotAskedForItDoesNotOfferIt) {
  Router router(test::router_options("left"));
  EXPECT_FALSE(router.listen()->endpoint().can(Carrier::kUcx));
}

TEST_F(Ucx, ItsSignalHandlersDoNotReplaceTheProcesss) {
  auto pair = connect();
  for (int signal : {SIGHUP, SIGFPE}) {
    struct sigaction action {};
    ASSERT_EQ(::sigaction(signal, nullptr, &action), 0);
    // A sanitizer may have its own; UCX's lie in libucs.
    Dl_info where{};
    if (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) continue;
    ASSERT_NE(::dladdr(reinterpret_cast<void*>(action.sa_handler), &where), 0);
    EXPECT_EQ(std::string(where.dli_fname).find("libucs"), std::string::npos) << signal;
  }
}

TEST_F(Ucx, TransportsThatDoNotReachThePeerAreAnErrorThatNamesThem) {
  // Only within one worker.
  const std::string text =
      refusal(test::ucx_router_options("left", "self"), test::ucx_router_options("right", "self"));
  test::expect_in(text, "ucx connection to host right");
  test::expect_in(text, "UCX finds no way to the peer");
}

TEST_F(Ucx, AWrongSecretComesToNoConnection) {
  RouterOptions stranger = test::ucx_router_options("left", kTransports);
  stranger.secret = Secret::from_text("another secret");
  test::expect_in(refusal(stranger, test::ucx_router_options("right", kTransports)), "secret");
}

TEST_F(Ucx, RegisteredMemoryIsSentFromAndReceivedInto) {
  test::expect_registered_memory_is_used(connect(), random_);
}

TEST_F(Ucx, ABufferOutsideItsRegistrationIsRefusedByName) {
  test::expect_a_buffer_outside_its_registration_is_refused(connect());
}

TEST_F(Ucx, WhatCountedAsSentArrivesThoughTheSenderClosedSince) {
  test::expect_sent_messages_outlive_their_sender(connect(), 500'000);
}

TEST_F(Ucx, ManySmallMessagesOutliveASenderThatClosesAtOnce) {
  // More than the kernel's buffers take at once, so that some still wait inside of UCX.
  constexpr std::size_t kMessages = 256, kSize = 16'000;
  for (int round = 0; round < 3; ++round) {
    auto pair = connect();
    std::vector<std::vector<std::byte>> sent;
    std::vector<std::byte> buffer(kSize);
    std::size_t bytes = 0, received = 0;
    const auto receive = [&] {
      Request* one = pair.second->post_receive(buffer);
      ASSERT_EQ(test::finish(*pair.second, one, bytes), Outcome::kDone)
          << received << " of " << sent.size() << ": " << pair.second->error()->what();
      ASSERT_EQ(buffer, sent[received]) << received;
      ++received;
    };
    // Until one is not done at once; then the peer reads no more than it takes to get that one on its way.
    // (Where something is under way at the end, UCX has no way to drop that alone.)
    for (bool full = false; !full && sent.size() < kMessages;) {
      sent.push_back(test::random_data(random_, kSize));
      Request* send = pair.first->post_send(sent.back());
      for (auto deadline = test::soon(); pair.first->test(send, bytes) == Outcome::kPending; full = true) {
        ASSERT_FALSE(deadline.passed());
        if (received + 1 < sent.size()) {
          ASSERT_NO_FATAL_FAILURE(receive());
        }
      }
    }
    pair.first.reset();
    while (received < sent.size()) {
      ASSERT_NO_FATAL_FAILURE(receive());
    }
  }
}

TEST_F(Ucx, ASenderThatRunsAheadIsHeldBackAndLosesNothing) {
  auto pair = connect();
  constexpr std::uint64_t kMessages = 3000;
  std::deque<std::uint64_t> values;
  std::deque<Request*> sends;
  std::uint64_t done = 0;
  const auto push = [&] {
    while (values.size() < kMessages) {
      values.push_back(values.size());
      Request* send = pair.first->post_send(std::as_bytes(std::span(&values.back(), 1)));
      if (send == nullptr) {
        values.pop_back();
        break;
      }
      sends.push_back(send);
    }
    std::size_t bytes = 0;
    while (!sends.empty() && pair.first->test(sends.front(), bytes) == Outcome::kDone) {
      sends.pop_front();
      ++done;
    }
  };
  for (int turn = 0; turn < 2000; ++turn) {
    push();
    pair.second->progress();
  }
  EXPECT_EQ(done, kMostAhead) << "nothing was received yet";
  for (std::uint64_t i = 0; i < kMessages; ++i) {
    std::uint64_t got = 0;
    std::size_t bytes = 0;
    Request* receive = pair.second->post_receive(std::as_writable_bytes(std::span(&got, 1)));
    auto deadline = test::soon();
    Outcome outcome = Outcome::kPending;
    while ((outcome = pair.second->test(receive, bytes)) == Outcome::kPending && !deadline.passed()) push();
    ASSERT_EQ(outcome, Outcome::kDone) << i;
    ASSERT_EQ(got, i);
  }
  while (!sends.empty()) push();
  EXPECT_EQ(done, kMessages);
}

TEST_F(Ucx, AClosedConnectionLeavesNothingBehindOnceThePeerIsGone) {
  { auto pair = connect(); }
  const auto deadline = test::soon();
  while (ClosingWorkers::of_process().count() > 0 && !deadline.passed()) std::this_thread::yield();
  EXPECT_EQ(ClosingWorkers::of_process().count(), 0u);
}

TEST_F(Ucx, RandomMessagesBothWaysArriveWholeBetweenSleepingThreads) {
  test::expect_random_messages_both_ways(connect(), 400, 20'000, 600'000);
}

// Credit after credit would else hold a call that takes them for as long as the peer likes.
TEST_F(Ucx, AConnectionTakesNoMoreCreditThanItHasSentMessages) {
  std::string problem;
  auto context = std::make_shared<Context>(UcxFunctions::load(&problem), "", "self,tcp");
  auto worker = std::make_unique<Worker>(context);
  Worker peer(context);
  worker->connect(peer.address());
  peer.connect(worker->address());
  constexpr std::uint64_t kToken = 11, kPeerToken = 12;
  auto [mine, theirs] = test::local_pair();
  UcxConnection connection(test::control_channel(std::move(mine), true),
                           {std::move(worker), kToken, kPeerToken});
  std::vector<void*> sends;
  for (std::uint64_t credit = 0; credit < 1000; ++credit) {
    ucp_request_param_t params{};
    void* const send = context->ucx().tag_send_nbx(peer.endpoint(), nullptr, 0,
                                                   tag_of(kToken, TagKind::kCredit, credit), &params);
    if (UCS_PTR_IS_PTR(send)) sends.push_back(send);
  }
  for (auto deadline = test::soon(); connection.error() == nullptr && !deadline.passed();) {
    peer.progress();
    connection.progress();
  }
  ASSERT_NE(connection.error(), nullptr);
  test::expect_in(connection.error()->what(),
                  "the peer says to have taken 128 messages, of 0 that were sent");
  for (void* send : sends) context->ucx().request_free(send);
}

TEST(UcxTags, AreOneForEveryMessage) {
  const std::uint64_t token = 0x123456789abcdef0;
  EXPECT_NE(tag_of(token, TagKind::kMessage, 1), tag_of(token, TagKind::kMessage, 2));
  EXPECT_NE(tag_of(token, TagKind::kMessage, 1), tag_of(token, TagKind::kCredit, 1));
  EXPECT_NE(tag_of(token, TagKind::kTest, 1), tag_of(token, TagKind::kCredit, 1));
  EXPECT_EQ(tag_of(token, TagKind::kMessage, 0), token);
}

}  // namespace
}  // namespace tombolo::transport::ucx
