#include "transport/tcp/path/path_control.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace tombolo::transport::tcp {
namespace {

using std::chrono::milliseconds;

constexpr double kGigabit = 1e9 / 8;
constexpr std::size_t kStockWindow = 3 << 20;

TEST(StreamsToBegin, AShortPathHasOne) {
  EXPECT_EQ(streams_to_begin({milliseconds(0), 10 * kGigabit, kStockWindow}), 1);
  EXPECT_EQ(streams_to_begin({std::chrono::microseconds(50), 25 * kGigabit, kStockWindow}), 1);
}

TEST(StreamsToBegin, AShortPathThatOneWindowDoesNotFillHasMore) {
  // 5 MB under way.
  EXPECT_EQ(streams_to_begin({milliseconds(1), 40 * kGigabit, kStockWindow}), 4);
}

TEST(StreamsToBegin, ALongPathHasEight) {
  EXPECT_EQ(streams_to_begin({milliseconds(20), kGigabit, kStockWindow}), 8);
  EXPECT_EQ(streams_to_begin({milliseconds(20), 0, kStockWindow}), 8);
  EXPECT_EQ(streams_to_begin({milliseconds(20), kGigabit, 0}), 8);
}

TEST(StreamsToBegin, AreNotBeyondEightHoweverMuchIsPromised) {
  EXPECT_EQ(streams_to_begin({milliseconds(4), 400 * kGigabit, 4096}), 8);
  EXPECT_EQ(streams_to_begin({milliseconds(300), 400 * kGigabit, 4096}), 8);
}

TEST(Windows, AreTheSmallerOfBothEnds) {
  EXPECT_EQ(window_of(4 << 20, 6 << 20), std::size_t{3 << 20});
  EXPECT_EQ(window_of(1 << 20, 32 << 20), std::size_t{1 << 20});
}

/// A path of `rate` bytes per second, of which each stream attains at most `each`.
struct Path {
  double rate = 0, each = 0;
  bool by_losses = false;
  double noise = 0;
  double promised = 0;
  Duration length = milliseconds(50);
};

/// Number of streams after `time` seconds.
std::size_t run(PathControl& control, const Path& path, std::size_t streams, int time, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<> noise(1 - path.noise, 1 + path.noise);
  for (int look = 0; look < 4 * time; ++look) {
    const double most = path.each * static_cast<double>(streams);
    const bool limited = most < path.rate;
    const double attained = std::min(path.rate, most) * noise(random);
    PathLook seen;
    seen.time = milliseconds(250);
    seen.bytes = static_cast<std::uint64_t>(attained * 0.25);
    seen.streams = seen.busy = streams;
    seen.sent = seen.bytes / 1448;
    if (limited && path.by_losses) {
      seen.repeated = seen.sent / 1000;
    } else if (limited) {
      seen.held_back = streams;
    }
    seen.length = path.length;
    seen.round_trip = limited ? path.length : 2 * path.length;
    seen.bytes_per_second = path.promised;
    const std::size_t more = control.decide(seen);
    EXPECT_TRUE(more == 0 || limited);
    streams += more;
  }
  return streams;
}

TEST(PathControlOfStreams, AddsUntilThePathIsFull) {
  PathControl control;
  const std::size_t streams = run(control, {kGigabit, kGigabit / 20}, 4, 120);
  EXPECT_GE(streams, 20U);
  EXPECT_LE(streams, 30U);
}

TEST(PathControlOfStreams, AddsWhereLossesHoldEachStreamBack) {
  PathControl control;
  Path path{kGigabit, kGigabit / 30};
  path.by_losses = true;
  EXPECT_GE(run(control, path, 8, 120), 30U);
}

TEST(PathControlOfStreams, LeavesAFullPathAsItIs) {
  PathControl control;
  EXPECT_EQ(run(control, {kGigabit, kGigabit}, 8, 600), 8U);
}

TEST(PathControlOfStreams, LeavesAPathAsItIsThatGivesWhatItsNicsPromise) {
  PathControl control;
  Path path{kGigabit, 0.95 * kGigabit / 8};
  path.promised = kGigabit;
  EXPECT_EQ(run(control, path, 8, 600), 8U);
}

TEST(PathControlOfStreams, StopsForGoodWhereMoreBringNothing) {
  // A reader that is slow, whatever the number of streams: all are held back, and stay so.
  for (unsigned seed = 1; seed <= 20; ++seed) {
    PathControl control;
    std::size_t streams = 8;
    std::mt19937 random(seed);
    std::uniform_real_distribution<> noise(0.98, 1.02);
    for (int look = 0; look < 4 * 600; ++look) {
      PathLook seen;
      seen.time = milliseconds(250);
      seen.bytes = static_cast<std::uint64_t>(1e7 * noise(random));
      seen.streams = seen.busy = seen.held_back = streams;
      seen.length = seen.round_trip = milliseconds(50);
      streams += control.decide(seen);
    }
    EXPECT_TRUE(control.converged());
    EXPECT_EQ(streams, 18U) << "seed " << seed;  // 8, 12, 18
  }
}

TEST(PathControlOfStreams, NeverGoesBeyondItsBound) {
  PathControl control(10);
  EXPECT_EQ(run(control, {kGigabit, 1e5}, 8, 600), 10U);
}

TEST(PathControlOfStreams, ANoisyPathGrowsToWhatItNeedsAtMostOnceAndAHalf) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    PathControl control;
    Path path{kGigabit, kGigabit / 16};
    path.noise = 0.2;
    const std::size_t streams = run(control, path, 8, 300, seed);
    EXPECT_GE(streams, 12U) << "seed " << seed;
    EXPECT_LE(streams, 24U) << "seed " << seed;
  }
}

TEST(PathControlOfStreams, WaitsForThoseThatAreMissing) {
  PathControl control;
  PathLook seen;
  seen.time = milliseconds(250);
  seen.bytes = 1'000'000;
  seen.streams = seen.busy = seen.held_back = 8;
  seen.missing = 2;
  seen.length = seen.round_trip = milliseconds(50);
  for (int look = 0; look < 400; ++look) ASSERT_EQ(control.decide(seen), 0U);
  seen.missing = 0;
  std::size_t added = 0;
  for (int look = 0; look < 40 && added == 0; ++look) added = control.decide(seen);
  EXPECT_EQ(added, 4U);
}

TEST(PathControlOfStreams, AProgramThatSendsLittleSaysNothingOfThePath) {
  PathControl control;
  PathLook seen;
  seen.time = milliseconds(250);
  seen.bytes = 1000;
  seen.streams = 8;
  seen.held_back = seen.busy = 1;
  seen.length = seen.round_trip = milliseconds(50);
  for (int look = 0; look < 4000; ++look) ASSERT_EQ(control.decide(seen), 0U);
}

}  // namespace
}  // namespace tombolo::transport::tcp
