// Reads and writes of the other end's memory, over a library of verbs without hardware whose queue pairs work
// in random order. transport/routing/failover_one_sided_test.cpp has a network that is cut besides.
#include "transport/rdma/one_sided.h"

#include <gtest/gtest.h>

#include <deque>

#include "transport/rdma/connection.h"
#include "transport/testing/pretended_rdma.h"
#include "transport/testing/test_messages.h"

namespace tombolo::transport::rdma {
namespace {

using test::PretendedVerbs;
using Kind = OneSidedOperation::Kind;
using State = OneSidedOperation::State;

class RdmaOneSided : public testing::Test {
 protected:
  void SetUp() override {
    verbs_.reset(test_seed());
    live_ = verbs_.live();
  }
  void TearDown() override {
    pair_ = {};
    mine_.reset();
    theirs_.reset();
    EXPECT_EQ(verbs_.registered(), 0u);
    fabric_.reset();
    EXPECT_EQ(verbs_.live(), live_) << "all that was made is given back";
    verbs_.reset(1);
  }
  void connect(std::size_t nics = 1, int queue_pairs = 1) {
    fabric_ = std::make_unique<test::PretendedFabric>(nics);
    pair_ = fabric_->connect(test::pretended_options(queue_pairs));
    ASSERT_TRUE(pair_.first && pair_.second);
  }
  /// Windows at both ends; the left one knows of the right one's.
  void open(std::size_t bytes) {
    here_.assign(bytes, std::byte{1});
    there_.assign(bytes, std::byte{2});
    mine_ = left().one_sided()->open(here_);
    theirs_ = right().one_sided()->open(there_);
  }
  OneSidedOperation& operation(Kind kind, std::size_t local, std::size_t bytes, std::size_t offset) {
    OneSidedOperation& made = operations_.emplace_back();
    made.kind = kind;
    made.window = mine_.get();
    made.local = here_.data() + local;
    made.bytes = bytes;
    made.remote = theirs_->remote();
    made.offset = offset;
    return made;
  }
  /// Moves the left end alone: the right one's processor has no part in it.
  State finish(const OneSidedOperation& one) {
    for (const auto deadline = test::soon(); one.state == State::kUnderWay && !deadline.passed();)
      left().progress();
    return one.state;
  }
  Connection& left() { return *pair_.first; }
  Connection& right() { return *pair_.second; }

  PretendedVerbs& verbs_ = PretendedVerbs::instance();
  std::size_t live_ = 0;
  std::vector<std::byte> here_, there_;
  std::unique_ptr<test::PretendedFabric> fabric_;
  test::Pair pair_;
  std::unique_ptr<OpenWindow> mine_, theirs_;
  std::deque<OneSidedOperation> operations_;
};

TEST_F(RdmaOneSided, RandomReadsAndWritesMoveEveryByteWithoutTheOtherEnd) {
  std::mt19937_64 random(test_seed());
  struct Way {
    std::size_t nics;
    int queue_pairs;
    std::uint32_t longest;
  };
  for (const Way& way : {Way{1, 1, 1U << 30}, Way{1, 3, 10'000}, Way{2, 2, 1U << 30}, Way{2, 1, 5'000}}) {
    verbs_.longest_message = way.longest;
    pair_ = {};
    connect(way.nics, way.queue_pairs);
    constexpr std::size_t kBytes = 1'500'000;
    here_ = test::random_data(random, kBytes);
    there_ = test::random_data(random, kBytes);
    mine_ = left().one_sided()->open(here_);
    theirs_ = right().one_sided()->open(there_);
    const std::size_t reads = verbs_.reads();
    // Operations that are under way together touch places of their own.
    auto wanted_here = here_, wanted_there = there_;
    std::size_t done = 0, writes = 0;
    for (int round = 0; round < test_rounds(20); ++round) {
      std::vector<OneSidedOperation*> all;
      std::size_t at = 0;
      while (at < kBytes) {
        const std::size_t limit = std::array<std::size_t, 4>{0, 100, 20'000, 400'000}[random() % 4];
        const std::size_t bytes = std::min(limit == 0 ? 0 : random() % limit, kBytes - at);
        const Kind kind = random() % 2 == 0 ? Kind::kWrite : Kind::kRead;
        OneSidedOperation& one = operation(kind, at, bytes, kBytes - at - bytes);
        auto& from = kind == Kind::kWrite ? wanted_here : wanted_there;
        auto& to = kind == Kind::kWrite ? wanted_there : wanted_here;
        const std::size_t here = at, there = kBytes - at - bytes;
        std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(kind == Kind::kWrite ? here : there), bytes,
                    to.begin() + static_cast<std::ptrdiff_t>(kind == Kind::kWrite ? there : here));
        for (const auto deadline = test::soon();;) {
          const auto begun = left().one_sided()->begin(one);
          ASSERT_NE(begun, OneSided::Begun::kNever);
          if (begun == OneSided::Begun::kYes) break;
          left().progress();
          ASSERT_FALSE(deadline.passed());
        }
        writes += kind == Kind::kWrite && bytes > 0 ? 1 : 0;
        all.push_back(&one);
        at += bytes + random() % 1000;
      }
      for (const OneSidedOperation* one : all) ASSERT_EQ(finish(*one), State::kDone);
      ASSERT_EQ(here_, wanted_here);
      ASSERT_EQ(there_, wanted_there);
      done += all.size();
      operations_.clear();
    }
    EXPECT_GT(done, 0u);
    // What several NICs write is read back.
    EXPECT_GE(verbs_.reads() - reads, way.nics > 1 ? writes : 0);
    ASSERT_EQ(right().error(), nullptr);
    mine_.reset();
    theirs_.reset();
  }
}

TEST_F(RdmaOneSided, MessagesGoBesideThem) {
  std::mt19937_64 random(test_seed());
  connect(2, 2);
  open(1 << 20);
  for (int turn = 0; turn < 20; ++turn) {
    here_ = test::random_data(random, here_.size());
    mine_ = left().one_sided()->open(here_);
    OneSidedOperation& one = operation(Kind::kWrite, 0, here_.size(), 0);
    ASSERT_EQ(left().one_sided()->begin(one), OneSided::Begun::kYes);
    const auto message = test::random_data(random, 1 + random() % 300'000);
    std::vector<std::byte> buffer(message.size());
    test::expect_carried(left(), right(), message, buffer);
    ASSERT_EQ(finish(one), State::kDone);
    ASSERT_EQ(there_, here_);
  }
}

TEST_F(RdmaOneSided, AMessageBehindAWriteFindsItsBytes) {
  connect(2, 3);
  open(200'000);
  for (int turn = 1; turn <= 100; ++turn) {
    std::ranges::fill(here_, static_cast<std::byte>(turn));
    OneSidedOperation& one = operation(Kind::kWrite, 0, here_.size(), 0);
    ASSERT_EQ(left().one_sided()->begin(one), OneSided::Begun::kYes);
    ASSERT_EQ(finish(one), State::kDone);
    EXPECT_EQ(there_, here_);
  }
}

TEST_F(RdmaOneSided, NothingIsReadBeforeAWindowIsOpen) {
  connect();
  here_.assign(1000, std::byte{1});
  mine_ = left().one_sided()->open(here_);
  // Memory for receives is known to the other end too, and may not be read.
  there_.assign(1000, std::byte{2});
  const auto memory = right().register_memory(there_, MemoryKind::kHost);
  OneSidedOperation& one = operations_.emplace_back();
  one.kind = Kind::kRead;
  one.window = mine_.get();
  one.local = here_.data();
  one.bytes = 1000;
  one.remote.address = reinterpret_cast<std::uint64_t>(there_.data());
  one.remote.bytes = 1000;
  one.remote.keys[0] = static_cast<RdmaMemory&>(*memory).registrations()[0]->rkey;
  ASSERT_EQ(left().one_sided()->begin(one), OneSided::Begun::kYes);
  EXPECT_EQ(finish(one), State::kLost);
  EXPECT_EQ(here_, std::vector<std::byte>(1000, std::byte{1}));
}

TEST_F(RdmaOneSided, AWindowThatIsClosedOrTooSmallIsRefusedByName) {
  for (const bool closed : {false, true}) {
    connect();
    open(1000);
    OneSidedOperation& one = operation(Kind::kWrite, 0, 1000, closed ? 0 : 1);
    if (closed) theirs_.reset();
    ASSERT_EQ(left().one_sided()->begin(one), OneSided::Begun::kYes);
    EXPECT_EQ(finish(one), State::kLost);
    ASSERT_NE(left().error(), nullptr);
    EXPECT_EQ(left().error()->cause(), Cause::kRemote);
    test::expect_in(left().error()->what(), "memory of the peer's that is no window, or not any more");
    EXPECT_EQ(left().one_sided()->begin(one), OneSided::Begun::kNever);
    EXPECT_THROW(left().one_sided()->open(here_), Error);
    EXPECT_EQ(there_, std::vector<std::byte>(1000, std::byte{2}));
    mine_.reset();
    theirs_.reset();
    pair_ = {};
  }
}

TEST_F(RdmaOneSided, WhatASilentNetworkSwallowsIsLost) {
  connect(2);
  open(300'000);
  verbs_.silence();
  OneSidedOperation& one = operation(Kind::kWrite, 0, 300'000, 0);
  ASSERT_EQ(left().one_sided()->begin(one), OneSided::Begun::kYes);
  EXPECT_EQ(finish(one), State::kLost);
  ASSERT_NE(left().error(), nullptr);
  EXPECT_EQ(left().error()->cause(), Cause::kTimeout);
}

TEST_F(RdmaOneSided, ADeviceThatTakesNothingFailsTheConnectionByName) {
  connect();
  open(1000);
  verbs_.refuse("post_send", ENOMEM);
  OneSidedOperation& one = operation(Kind::kRead, 0, 1000, 0);
  ASSERT_EQ(left().one_sided()->begin(one), OneSided::Begun::kYes);
  EXPECT_EQ(finish(one), State::kLost);
  test::expect_in(left().error()->what(), "post a read of 1000 bytes to RDMA device pretended0");
}

TEST_F(RdmaOneSided, TooManyAreToBeTriedAgainAndTheEndOfTheConnectionEndsThem) {
  connect();
  open(OneSidedWork::kMost * 10'000);
  for (std::size_t i = 0; i < OneSidedWork::kMost; ++i)
    ASSERT_EQ(left().one_sided()->begin(operation(Kind::kWrite, i * 10'000, 10'000, 0)),
              OneSided::Begun::kYes);
  EXPECT_EQ(left().one_sided()->begin(operation(Kind::kWrite, 0, 10, 0)), OneSided::Begun::kTryAgain);
  pair_.first.reset();
  const auto after = there_;
  for (std::size_t i = 0; i < OneSidedWork::kMost; ++i) EXPECT_EQ(operations_[i].state, State::kLost);
  EXPECT_EQ(operations_.back().state, State::kIdle);
  right().progress();
  EXPECT_EQ(there_, after);
}

TEST_F(RdmaOneSided, AWindowThatADeviceRefusesIsAnErrorAndLeavesNothing) {
  connect(2);
  here_.resize(1000);
  const std::size_t before = verbs_.registered();
  for (const char* function : {"reg_mr", "modify_qp"}) {
    verbs_.refuse(function, ENOMEM, 1);
    EXPECT_THROW(left().one_sided()->open(here_), Error);
    EXPECT_TRUE(verbs_.refused_all());
    EXPECT_EQ(verbs_.registered(), before);
  }
  EXPECT_THROW(left().one_sided()->open({}), Error);
  // Several connections share the registrations.
  mine_ = left().one_sided()->open(here_);
  const auto again = left().one_sided()->open(here_);
  EXPECT_EQ(verbs_.registered(), before + 2);
}

}  // namespace
}  // namespace tombolo::transport::rdma
