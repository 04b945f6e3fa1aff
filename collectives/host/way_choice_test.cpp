#include "collectives/host/way_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace tombolo::collectives {
namespace {

using std::chrono::microseconds;

/// A leader's calls, one after the other: "s" went through slots, "b" from buffers. They take what is given.
std::string make_calls_that_take(WayChoice& choice, int calls, microseconds slots, microseconds buffers) {
  std::string ways;
  for (int call = 0; call < calls; ++call) {
    const HostWay way = choice.way_or(HostWay::kFromBuffers);
    choice.choose();
    choice.measured(way, way == HostWay::kThroughSlots ? slots : buffers, 1);
    ways += way == HostWay::kThroughSlots ? 's' : 'b';
  }
  return ways;
}

long count_of(const std::string& ways, char way) {
  return std::ranges::count(ways, way);
}

TEST(WayChoice, TakesTheWayThatItIsGivenFirstAndTriesBoth) {
  WayChoice buffers_first, slots_first;
  const std::string ways = make_calls_that_take(buffers_first, 4, microseconds(9), microseconds(10));
  EXPECT_EQ(ways.front(), 'b');
  EXPECT_GT(count_of(ways, 's'), 0) << ways;
  EXPECT_EQ(slots_first.way_or(HostWay::kThroughSlots), HostWay::kThroughSlots);
}

TEST(WayChoice, TakesTheFasterWayAndLooksAtTheOtherOneNowAndThen) {
  for (const bool slots_are_faster : {false, true}) {
    WayChoice choice;
    const microseconds slots(slots_are_faster ? 10 : 40), buffers(25);
    make_calls_that_take(choice, 200, slots, buffers);
    const std::string ways = make_calls_that_take(choice, 256, slots, buffers);
    EXPECT_EQ(count_of(ways, slots_are_faster ? 'b' : 's'), 4) << ways;
  }
}

TEST(WayChoice, KeepsAWayOfWhichOneCallTookLong) {
  WayChoice choice;
  make_calls_that_take(choice, 100, microseconds(10), microseconds(20));
  choice.set(HostWay::kThroughSlots);
  make_calls_that_take(choice, 1, microseconds(100000), microseconds(20));
  const std::string ways = make_calls_that_take(choice, 30, microseconds(10), microseconds(20));
  EXPECT_LE(count_of(ways, 'b'), 1) << ways;
}

TEST(WayChoice, LeavesAWayThatHasBecomeSlowAndComesBackToItOnceThatIsOver) {
  WayChoice choice;
  make_calls_that_take(choice, 200, microseconds(10), microseconds(20));
  make_calls_that_take(choice, 8, microseconds(60), microseconds(20));
  EXPECT_LE(count_of(make_calls_that_take(choice, 60, microseconds(60), microseconds(20)), 's'), 1);
  make_calls_that_take(choice, 70, microseconds(10), microseconds(20));
  EXPECT_LE(count_of(make_calls_that_take(choice, 60, microseconds(10), microseconds(20)), 'b'), 1);
}

// Every look falls on the larger of two sizes that take turns; so many calls lie between two looks.
TEST(WayChoice, ComparesCallsOfUnlikeSizesByTheByte) {
  WayChoice choice;
  int slots = 0;
  for (int call = 0; call < 1024; ++call) {
    const HostWay way = choice.way_or(HostWay::kFromBuffers);
    const std::size_t bytes = call % 2 == 0 ? 600'000 : 1'000'000;
    choice.choose();
    const double took = static_cast<double>(bytes) * (way == HostWay::kThroughSlots ? 1.5e-10 : 1e-10);
    choice.measured(way, from_seconds(took), bytes);
    slots += way == HostWay::kThroughSlots ? 1 : 0;
  }
  EXPECT_LT(slots, 40);
}

TEST(WayChoices, KeepsApartWhatIsUnlike) {
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  WayChoices choices;
  const WayChoice& one = choices.at(1, kBytes);
  EXPECT_EQ(&one, &choices.at(1, kBytes - 1)) << "up to the same power of two";
  EXPECT_NE(&one, &choices.at(1, kBytes + 1));
  EXPECT_NE(&one, &choices.at(2, kBytes));
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, kBytes << 10, ~std::size_t{0}})
    for (std::size_t row = 0; row < WayChoices::kRows; ++row)
      choices.at(row, bytes).set(HostWay::kThroughSlots);  // within the table
}

}  // namespace
}  // namespace tombolo::collectives
