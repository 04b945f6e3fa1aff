// A connection fails in its own way also while memory is short or the log's sink throws: no exception leaves
// a call, and none ends the process.
#include "transport/failing.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <new>
#include <stdexcept>
#include <string>

#include "base/sanitizer.h"
#include "transport/routing/failover_connection.h"
#include "transport/testing/failing_operator_new.h"
#include "transport/testing/pretended_rdma.h"
#include "transport/testing/short_memory.h"
#include "transport/testing/test_messages.h"

namespace tombolo::transport {
namespace {

TEST(FailureTexts, AnErrorWhoseTextCannotBeMadeKeepsItsCauseAndNamesTheConnection) {
  const FailureTexts texts("tcp eth0 -> rank 3");
  EXPECT_STREQ(texts.error(Cause::kRemote, {"it ", "left"}).what(), "it left");
  const std::string_view endless("", std::string().max_size() + 1);
  const Error error = texts.error(Cause::kTimeout, {"why: ", endless});
  EXPECT_EQ(error.cause(), Cause::kTimeout);
  EXPECT_STREQ(error.what(),
               "tcp eth0 -> rank 3: it failed, and there was no memory for a text that says how");
}

TEST(Guarded, WhateverIsThrownIsTold) {
  Cause cause{};
  std::string text;
  const auto note = [&](Cause why, std::string_view what) noexcept {
    cause = why;
    text = what;
  };
  guarded([] { fail(Cause::kAborted, "an error"); }, note);
  EXPECT_EQ(cause, Cause::kAborted);
  EXPECT_EQ(text, "an error");
  guarded([] { throw std::runtime_error("another"); }, note);
  EXPECT_EQ(cause, Cause::kSystem);
  EXPECT_EQ(text, "another");
  guarded([] { throw 42; }, note);
  EXPECT_EQ(cause, Cause::kInternal);
  guarded([&] { text = "none"; }, note);
  EXPECT_EQ(text, "none");
}

enum class Carried { kTcp, kShm, kRdma, kFailover };

/// Two ends, of which both log to one sink, which throws on every line once it is told to.
class Failing : public testing::TestWithParam<Carried> {
 protected:
  void SetUp() override {
    test::PretendedVerbs::instance().reset(1);
    if (GetParam() == Carried::kRdma) {
      fabric_ = std::make_unique<test::PretendedFabric>();
      fabric_->log = log_;
      pair_ = fabric_->connect();
    } else {
      const bool shm = GetParam() == Carried::kShm;
      RouterOptions left = test::router_options(shm ? "both" : "left"),
                    right = test::router_options(shm ? "both" : "right");
      for (RouterOptions* one : {&left, &right}) {
        one->log = log_;
        if (GetParam() == Carried::kFailover)
          one->extra_backends = {test::pretended_rdma()};
        else
          one->policy.transports = {shm ? "shm" : "tcp"};
      }
      pair_ = test::connect_routers(left, right);
    }
    ASSERT_TRUE(pair_.first && pair_.second);
    const bool fails_over = dynamic_cast<FailoverConnection*>(pair_.first.get()) != nullptr;
    ASSERT_EQ(fails_over, GetParam() == Carried::kFailover);
  }
  /// The right end gets more than its receive takes, in calls that `turn` makes.
  template <typename Turn>
  void send_too_much(const Turn& turn) {
    receive_ = pair_.second->post_receive(buffer_);
    send_ = pair_.first->post_send(data_);
    for (const auto deadline = test::soon(); !both_failed() && !deadline.passed();) turn();
    ASSERT_TRUE(both_failed());
    expect_failed(*pair_.first);
    expect_failed(*pair_.second);
  }
  bool both_failed() const { return pair_.first->error() != nullptr && pair_.second->error() != nullptr; }
  static void expect_failed(Connection& end) {
    std::array<std::byte, 1> byte{};
    std::size_t bytes = 0;
    EXPECT_FALSE(end.progress());
    Request* receive = end.post_receive(byte);
    ASSERT_NE(receive, nullptr);
    EXPECT_EQ(end.test(receive, bytes), Outcome::kFailed);
  }

  std::atomic<bool> throws_{false};
  std::atomic<int> thrown_{0};
  Log log_{LogLevel::kTrace, [this](LogLevel, std::string_view) {
             if (!throws_) return;
             ++thrown_;
             throw std::runtime_error("the sink takes nothing");
           }};
  std::vector<std::byte> data_ = std::vector<std::byte>(100), buffer_ = std::vector<std::byte>(10);
  Request *send_ = nullptr, *receive_ = nullptr;
  std::unique_ptr<test::PretendedFabric> fabric_;
  test::Pair pair_;
};

TEST_P(Failing, ASinkThatThrowsOnEveryLineChangesNothingOfAFailure) {
  throws_ = true;
  send_too_much([&] {
    pair_.first->progress();
    pair_.second->progress();
  });
  EXPECT_GE(thrown_, 2) << "each end wrote of its failure";
  EXPECT_EQ(pair_.second->error()->cause(), Cause::kRemote);
  test::expect_in(pair_.second->error()->what(), "has 100 bytes, but the receive posted for it takes 10");
  EXPECT_EQ(pair_.first->error()->cause(), Cause::kRemote);
  test::expect_in(pair_.first->error()->what(), "a message of 100 bytes");
  pair_.first.reset();
  pair_.second.reset();
  throws_ = false;
}

TEST_P(Failing, AnEndWithoutMemoryFailsAloneAndItsPeerIsTold) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's operator new always has memory";
  send_too_much([&] {
    pair_.first->progress();
    const test::ShortMemory none;
    pair_.second->progress();
  });
  EXPECT_EQ(pair_.second->error()->cause(), Cause::kSystem);
  test::expect_in(pair_.second->error()->what(), "there was no memory for a text that says how");
  EXPECT_EQ(pair_.first->error()->cause(), Cause::kRemote);
  test::expect_in(pair_.first->error()->what(), "the peer closed it");
}

std::string way_of(const testing::TestParamInfo<Carried>& tested) {
  constexpr std::array kNames{"Tcp", "Shm", "Rdma", "Failover"};
  return kNames[static_cast<std::size_t>(tested.param)];
}

INSTANTIATE_TEST_SUITE_P(Over, Failing,
                         testing::Values(Carried::kTcp, Carried::kShm, Carried::kRdma, Carried::kFailover),
                         way_of);

}  // namespace
}  // namespace tombolo::transport
