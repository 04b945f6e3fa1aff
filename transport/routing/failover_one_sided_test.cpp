// What becomes of one-sided operations when the NICs fail that do them: those that are not done are lost, and
// messages go on.
#include "transport/routing/failover_one_sided.h"

#include <gtest/gtest.h>

#include <deque>

#include "transport/routing/failover_connection.h"
#include "transport/testing/pretended_rdma.h"
#include "transport/testing/test_messages.h"

namespace tombolo::transport {
namespace {

using Kind = OneSidedOperation::Kind;
using State = OneSidedOperation::State;

TEST(FailoverOneSided, WhatACutLeavesIsDoneOrLostAndMessagesGoOn) {
  auto& verbs = test::PretendedVerbs::instance();
  std::mt19937_64 random(test_seed());
  constexpr std::size_t kOperations = 16, kBytes = 100'000;
  std::size_t lost_in_all = 0, done_in_all = 0;
  const auto rounds = static_cast<std::size_t>(test_rounds(20));
  for (std::size_t round = 0; round < rounds; ++round) {
    verbs.reset(static_cast<unsigned>(random()));
    {
      const auto options = test::pretended_rdma_options<2, 2, 4096>;
      test::Pair pair = test::connect_routers(options("left"), options("right"));
      ASSERT_TRUE(pair.first && pair.second);
      std::byte byte{}, echo{};
      test::expect_carried(*pair.first, *pair.second, {&byte, 1}, {&echo, 1});
      test::expect_carried(*pair.second, *pair.first, {&byte, 1}, {&echo, 1});
      OneSided* left = pair.first->one_sided();
      OneSided* right = pair.second->one_sided();
      ASSERT_TRUE(left != nullptr && right != nullptr);
      auto here = test::random_data(random, kOperations * kBytes);
      std::vector<std::byte> there(here.size());
      const auto mine = left->open(here), theirs = right->open(there);
      verbs.cut_after(1 + 60 * round / rounds +
                      random() % (60 / rounds));  // early and late, however few rounds there are
      std::deque<OneSidedOperation> all;
      for (std::size_t i = 0; i < kOperations; ++i) {
        OneSidedOperation& one = all.emplace_back();
        one.window = mine.get();
        one.local = here.data() + i * kBytes;
        one.bytes = kBytes;
        one.remote = theirs->remote();
        one.offset = i * kBytes;
        if (left->begin(one) != OneSided::Begun::kYes) one.state = State::kLost;
      }
      for (const auto deadline = test::soon();;) {
        pair.first->progress();
        pair.second->progress();
        if (std::ranges::none_of(all, [](const auto& one) { return one.state == State::kUnderWay; })) break;
        ASSERT_FALSE(deadline.passed());
      }
      for (std::size_t i = 0; i < kOperations; ++i) {
        (all[i].state == State::kDone ? done_in_all : lost_in_all) += 1;
        if (all[i].state != State::kDone) continue;
        const auto at = static_cast<std::ptrdiff_t>(i * kBytes);
        EXPECT_TRUE(std::equal(here.begin() + at, here.begin() + at + kBytes, there.begin() + at));
      }
      if (!verbs.is_cut()) continue;
      const auto message = test::random_data(random, 200'000);
      std::vector<std::byte> buffer(message.size());
      test::expect_carried(*pair.first, *pair.second, message, buffer);
      test::expect_carried(*pair.second, *pair.first, message, buffer);
      auto& end = dynamic_cast<FailoverConnection&>(*pair.first);
      if (end.moves() == 0) continue;
      // The other end's memory is left alone from now on.
      const auto after = there;
      OneSidedOperation late;
      late.window = mine.get();
      late.local = here.data();
      late.bytes = kBytes;
      late.remote = theirs->remote();
      EXPECT_EQ(left->begin(late), OneSided::Begun::kNever);
      EXPECT_THROW(left->open(here), Error);
      test::expect_carried(*pair.first, *pair.second, message, buffer);
      EXPECT_EQ(there, after);
    }
    EXPECT_EQ(verbs.registered(), 0u);
  }
  verbs.reset(1);
  EXPECT_GT(lost_in_all, 0u);
  EXPECT_GT(done_in_all, 0u);
}

}  // namespace
}  // namespace tombolo::transport
