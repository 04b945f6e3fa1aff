#include "transport/tcp/turns.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <thread>
#include <vector>

namespace tombolo::transport::tcp {
namespace {

using Finds = Turns::Visit::Finds;

Finds visit(Turns& turns) {
  return Turns::Visit(turns).finds();
}

TEST(ATurn, IsAVisitsWhereTheOwnerHasMadeNoCallSinceTheVisitBefore) {
  Turns turns;
  EXPECT_EQ(visit(turns), Finds::kNobody) << "a connection whose owner never calls is moved all the same";
  EXPECT_EQ(visit(turns), Finds::kNobody);
  for (int i = 0; i < 3; ++i) Turns::Turn{turns};
  EXPECT_EQ(visit(turns), Finds::kCalls);
  EXPECT_EQ(visit(turns), Finds::kNobody);
  { Turns::Turn look(turns, Turns::Of::kLook); }
  EXPECT_EQ(visit(turns), Finds::kNobody) << "to look moves nothing";
}

TEST(ATurn, OfTheOwnersTurnsVisitsAwayAndIsForgottenByNone) {
  Turns turns;
  {
    const Turns::Turn call(turns);
    EXPECT_EQ(visit(turns), Finds::kBusy);
    EXPECT_EQ(visit(turns), Finds::kBusy) << "a visit that found it taken gives back nothing";
  }
  EXPECT_EQ(visit(turns), Finds::kCalls) << "the visits before saw nothing";
  EXPECT_EQ(visit(turns), Finds::kNobody);
}

TEST(ATurn, OfAVisitTurnsOtherVisitsAway) {
  Turns turns;
  const Turns::Visit one(turns);
  ASSERT_EQ(one.finds(), Finds::kNobody);
  EXPECT_EQ(visit(turns), Finds::kBusy);
}

// Counted, with nothing but the turns to guard the counts: a pass that ran beside another would lose some.
TEST(ATurn, IsHeldByOneAtATimeAndEveryCallGetsOne) {
  constexpr std::uint64_t kCallers = 3, kCalls = 20'000, kVisits = 20'000;
  Turns turns;
  std::uint64_t passes = 0, calls = 0, looks = 0;  // guarded by the turns
  std::array<std::uint64_t, 3> found{};            // the visitor's
  std::uint64_t calls_seen = 0, wrongly_moved = 0;
  const auto pass = [&] {
    const std::uint64_t before = passes;
    std::atomic_signal_fence(std::memory_order_seq_cst);  // read and write stay apart
    passes = before + 1;
  };
  std::vector<std::thread> threads;
  for (std::uint64_t caller = 0; caller < kCallers; ++caller) {
    threads.emplace_back([&] {
      for (std::uint64_t i = 0; i < kCalls; ++i) {
        const bool looks_only = i % 4 == 0;
        const Turns::Turn turn(turns, looks_only ? Turns::Of::kLook : Turns::Of::kCall);
        pass();
        ++(looks_only ? looks : calls);
      }
    });
  }
  threads.emplace_back([&] {
    for (std::uint64_t i = 0; i < kVisits; ++i) {
      const Turns::Visit one(turns);
      ++found[static_cast<std::size_t>(one.finds())];
      if (one.finds() == Finds::kBusy) continue;
      // What the turns counted is what was called: a visit moves nothing where there were calls, and only
      // then.
      if ((one.finds() == Finds::kCalls) != (calls != calls_seen)) ++wrongly_moved;
      calls_seen = calls;
      pass();
    }
  });
  for (std::thread& thread : threads) thread.join();
  const auto of = [&](Finds finds) { return found[static_cast<std::size_t>(finds)]; };
  EXPECT_EQ(calls + looks, kCallers * kCalls);
  EXPECT_EQ(of(Finds::kBusy) + of(Finds::kCalls) + of(Finds::kNobody), kVisits);
  EXPECT_EQ(passes, kCallers * kCalls + of(Finds::kCalls) + of(Finds::kNobody));
  EXPECT_LE(of(Finds::kCalls), calls);
  EXPECT_EQ(wrongly_moved, 0U);
}

}  // namespace
}  // namespace tombolo::transport::tcp
