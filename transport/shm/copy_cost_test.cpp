#include "transport/shm/copy_cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/randomized_test.h"

namespace tombolo::transport::shm {
namespace {

using Way = WayChoice::Way;

void add(CopyCost& cost, int nanoseconds) {
  cost.add(std::chrono::nanoseconds(nanoseconds), 1000);
}

TEST(ShmCopyCost, IsTheMeanOfWhatCopiesTakeButForOneThatTakesVeryLong) {
  CopyCost cost;
  EXPECT_EQ(cost.value(), 0u);
  add(cost, 1000);
  EXPECT_EQ(cost.value(), 1000u);
  add(cost, 1'000'000);  // the process lost its processor
  EXPECT_LE(cost.value(), 1200u);
  for (const int now : {300, 5000}) {
    for (int i = 0; i < 100; ++i) add(cost, now);
    EXPECT_EQ(cost.value(), static_cast<std::uint32_t>(now));
  }
  for (int i = 0; i < 100; ++i) add(cost, i % 2 == 0 ? 400 : 800);
  EXPECT_GE(cost.value(), 550u);
  EXPECT_LE(cost.value(), 650u);
  for (int i = 0; i < 200; ++i) add(cost, -1);
  EXPECT_EQ(cost.value(), 1u) << "known, whatever the clock says";
}

TEST(ShmCopyBook, IsSharedByTheConnectionsToOneProcess) {
  const auto one = CopyBook::of(17), again = CopyBook::of(17), other = CopyBook::of(18);
  EXPECT_EQ(one, again);
  EXPECT_NE(one, other);
}

// The trials before the gaps are at their longest take 6 GiB.
constexpr std::size_t kBytes = std::size_t{8} << 30, kTrials = 9 * WayChoice::kTrial;

/// Of so many bytes those that go through the ring.
std::size_t through_ring(const CopyCosts& costs) {
  constexpr std::size_t kPart = 64 * 1024;
  WayChoice choice;
  std::size_t ring = 0;
  for (std::size_t sent = 0; sent < kBytes; sent += kPart) {
    const WayChoice::Choice next = choice.next(costs);
    if (next.way == Way::kRing) ring += kPart;
    choice.went(next, kPart);
  }
  return ring;
}

struct Case {
  CopyCosts costs;
  const char* why;
};

TEST(ShmWayChoice, TakesTheCheaperWayAndTriesTheOther) {
  for (const auto& [costs, why] : {Case{{1, 0, 2, 3}, "both copies overlap"},
                                   {{1, 0, 1, 3}, "both copies overlap"},
                                   {{10, 0, 11, 12}, "both copies overlap"},
                                   {{2, 3, 2, 2}, "the test of the memory takes longer than a copy"},
                                   {{1, 0, 2, 3, true}, "the sums are equal"},
                                   {{2, 1, 2, 4, true}, "the sum is lower"},
                                   {{0, 0, 2, 1}, "not known"},
                                   {{9, 0, 9, 0}, "not known"},
                                   {{0, 0, 9, 1, true}, "not known"}}) {
    EXPECT_GE(through_ring(costs), kBytes - kTrials) << why << ": " << costs.into_ring;
    EXPECT_LT(through_ring(costs), kBytes) << "the other way is tried";
  }
  for (const auto& [costs, why] : {Case{{4, 0, 3, 3}, "reading costs the reader no more"},
                                   {{2, 0, 4, 3}, "reading costs the reader less"},
                                   {{1, 0, 1, 1, true}, "in turns two copies take twice as long as one"},
                                   {{2, 0, 2, 3, true}, "in turns the sum counts"}}) {
    EXPECT_LE(through_ring(costs), kTrials) << why << ": " << costs.into_ring;
    EXPECT_GT(through_ring(costs), 0u) << "the other way is tried";
  }
}

// Where reading is dear at first, as from buffers that no cache holds, and then the cheaper way.
TEST(ShmWayChoice, TriesTheOtherWaySoonAgain) {
  WayChoice choice;
  std::size_t sent = 0, trials = 0;
  CopyCosts costs{2, 1, 2, 9, true};
  for (; sent < WayChoice::kTryEvery / 4; sent += 64 * 1024) {
    const WayChoice::Choice next = choice.next(costs);
    if (next.trial && ++trials == 2 * WayChoice::kTrial / (64 * 1024)) costs.reading = 1;
    choice.went(next, 64 * 1024);
  }
  EXPECT_EQ(choice.next(costs).share, 0);
}

TEST(ShmWayChoice, UsesBothWaysWhereThatKeepsBothEndsBusy) {
  EXPECT_DOUBLE_EQ(WayChoice::share_of_ring({4, 0, 1, 3}), 0.5);
  for (const CopyCosts& costs :
       {CopyCosts{4, 0, 1, 3}, {200, 0, 100, 220}, {900, 0, 100, 400}, {400, 50, 100, 300}}) {
    const double share = WayChoice::share_of_ring(costs);
    EXPECT_NEAR(share * costs.into_ring + (1 - share) * costs.announcing,
                share * costs.out_of_ring + (1 - share) * costs.reading, 1e-6);
    EXPECT_NEAR(static_cast<double>(through_ring(costs)) / kBytes, share, 0.001);
  }
}

TEST(ShmWayChoice, TakesOneWayAloneWhereBothWouldSaveLittle) {
  EXPECT_EQ(WayChoice::share_of_ring({40, 0, 25, 95}), 1) << "0.86 would save 14 %";
  EXPECT_EQ(WayChoice::share_of_ring({900, 0, 100, 300}), 0) << "0.27 would save 18 %";
}

// No share is better than the chosen one by more than both ways have to save.
TEST(ShmWayChoice, NoOtherShareTakesLessTime) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 10'000; ++round) {
    const auto draw = [&](std::uint32_t least) { return least + static_cast<std::uint32_t>(random() % 500); };
    const CopyCosts costs{draw(1), draw(0), draw(1), draw(1), random() % 3 == 0};
    const auto time_of = [&](double share) {
      const double writer = share * costs.into_ring + (1 - share) * costs.announcing;
      const double reader = share * costs.out_of_ring + (1 - share) * costs.reading;
      return costs.in_turns ? writer + reader : std::max(writer, reader);
    };
    const double chosen = time_of(WayChoice::share_of_ring(costs));
    for (const double share : {0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0})
      EXPECT_LE(chosen, time_of(share) / WayChoice::kWorthBoth + 1e-6)
          << costs.into_ring << ' ' << costs.announcing << ' ' << costs.out_of_ring << ' ' << costs.reading;
  }
}

/// A way that takes much longer is tried for a short while only; one that caches may make so is tried on.
TEST(ShmWayChoice, EndsATrialThatShowsNoHope) {
  const auto tried = [](std::uint32_t reading) {
    WayChoice choice;
    const CopyCosts costs{.into_ring = 40, .announcing = 1, .out_of_ring = 40, .reading = reading};
    std::size_t trials = 0;
    for (std::size_t sent = 0; sent < (std::size_t{400} << 20); sent += 1 << 20) {
      const WayChoice::Choice next = choice.next(costs);
      if (next.trial) trials += 1 << 20;
      choice.went(next, 1 << 20);
    }
    return trials;
  };
  EXPECT_EQ(tried(200), 3 * WayChoice::kShortTrial);
  EXPECT_EQ(tried(120), 2 * WayChoice::kTrial) << "three times as long";
}

}  // namespace
}  // namespace tombolo::transport::shm
