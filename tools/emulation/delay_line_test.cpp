#include "tools/emulation/delay_line.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace tombolo::emulation {
namespace {

using std::chrono::milliseconds;

constexpr double kRate = 8e6;  // a byte per microsecond

// A frame of `bytes` on the wire that begins with `mark`.
void enter(DelayLine& line, std::size_t bytes, TimePoint now, unsigned mark = 0) {
  auto room = line.space();
  ASSERT_GE(room.size(), kMostFrame);
  std::fill_n(room.begin(), kFrameHeader, std::byte{0});
  std::fill_n(room.begin() + kFrameHeader, bytes, static_cast<std::byte>(mark));
  line.enter(kFrameHeader + bytes, now);
}

TEST(DelayLine, DeliversAfterTheTimeOnTheWireAndTheDelay) {
  DelayLine line({kRate, milliseconds(10), 0, 0, 1});
  TimePoint start{};
  EXPECT_FALSE(line.next().has_value());
  enter(line, 1000, start, 1);
  enter(line, 500, start, 2);
  ASSERT_TRUE(line.next().has_value());
  EXPECT_EQ(*line.next(), start + milliseconds(11));
  EXPECT_TRUE(line.front(start + milliseconds(10)).empty());
  ASSERT_EQ(line.front(start + milliseconds(11)).size(), kFrameHeader + 1000);
  EXPECT_EQ(line.front(start + milliseconds(11)).back(), std::byte{1});
  line.pop();
  EXPECT_EQ(*line.next(), start + std::chrono::microseconds(11500));
  line.pop();
  // After a pause the line is free at once.
  enter(line, 1000, start + milliseconds(100));
  EXPECT_EQ(*line.next(), start + milliseconds(111));
  line.pop();
  EXPECT_EQ(line.counters().packets, 3U);
  EXPECT_EQ(line.counters().bytes, 2500U);
}

TEST(DelayLine, DropsWhatFindsItsQueueFull) {
  DelayLine line({kRate, milliseconds(50), 0, 200'000, 1});
  for (int i = 0; i < 300; ++i) enter(line, 1000, TimePoint{});
  EXPECT_EQ(line.counters().overflowed, 100U);
  // Bytes on the line do not count: 100 ms later as many fit as were sent in that time.
  for (int i = 0; i < 300; ++i) enter(line, 1000, TimePoint{} + milliseconds(100));
  EXPECT_EQ(line.counters().overflowed, 100U + 200U);
}

TEST(DelayLine, KeepsOrderAndContentsAcrossTheEndOfItsStore) {
  // 12.5 kB fit a step, 10 kB come on average; 200 MB pass through a store of some 6 MB.
  DelayLine line({1e9, milliseconds(1), 0, 0, 1});
  TimePoint now{};
  unsigned in = 0, out = 0;
  for (int step = 0; step < 20'000; ++step, now += std::chrono::microseconds(100), ++in) {
    enter(line, 60 + in * 7919 % 20'000, now, in);
    for (auto frame = line.front(now); !frame.empty(); frame = line.front(now), ++out) {
      ASSERT_EQ(frame.size(), kFrameHeader + 60 + out * 7919 % 20'000);
      ASSERT_EQ(frame[kFrameHeader], static_cast<std::byte>(out));
      ASSERT_EQ(frame.back(), static_cast<std::byte>(out));
      line.pop();
    }
  }
  EXPECT_EQ(line.counters().overflowed, 0U);
  EXPECT_GT(out, in - 100);
}

TEST(DelayLine, LosesPacketsIndependentlyAtTheRateAskedFor) {
  constexpr double kLoss = 0.01;
  constexpr int kPackets = 200'000;
  DelayLine line({1e9, milliseconds(1), kLoss, 0, 20261121});
  TimePoint now{};
  int pairs = 0;
  bool last = false;
  for (int i = 0; i < kPackets; ++i, now += milliseconds(1)) {
    std::uint64_t before = line.counters().lost;
    enter(line, 100, now);
    bool lost = line.counters().lost > before;
    pairs += lost && last ? 1 : 0;
    last = lost;
    while (!line.front(now).empty()) line.pop();
  }
  // Six standard deviations of a binomial; the seed is fixed anyway.
  double sigma = std::sqrt(kPackets * kLoss * (1 - kLoss));
  EXPECT_NEAR(static_cast<double>(line.counters().lost), kPackets * kLoss, 6 * sigma);
  EXPECT_NEAR(pairs, kPackets * kLoss * kLoss, 6 * std::sqrt(kPackets * kLoss * kLoss));
}

TEST(DelayLine, DropsAllWhileCutAndCarriesAgainAfterwards) {
  DelayLine line({kRate, milliseconds(10), 0, 0, 1});
  enter(line, 1000, TimePoint{});
  line.cut(true);
  EXPECT_FALSE(line.next().has_value());
  enter(line, 1000, TimePoint{} + milliseconds(1));
  EXPECT_FALSE(line.next().has_value());
  EXPECT_EQ(line.counters().cut, 2U);
  line.cut(false);
  enter(line, 1000, TimePoint{} + milliseconds(20));
  EXPECT_EQ(*line.next(), TimePoint{} + milliseconds(31));
}

}  // namespace
}  // namespace tombolo::emulation
