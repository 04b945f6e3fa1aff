#include "transport/shm/copy_cost.h"

#include <gtest/gtest.h>

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

// Nothing disturbs a copy so that it takes less time.
TEST(ShmCopyBook, IsSharedByTheConnectionsToOneProcess) {
  const auto one = CopyBook::of(17), again = CopyBook::of(17), other = CopyBook::of(18);
  EXPECT_EQ(one, again);
  EXPECT_NE(one, other);
}

/// Bytes of a gibibyte that go through the ring.
std::size_t through_ring(std::uint32_t in, std::uint32_t out, std::uint32_t read) {
  constexpr std::size_t kAll = std::size_t{1} << 30, kPart = 64 * 1024;
  WayChoice choice;
  std::size_t ring = 0;
  for (std::size_t sent = 0; sent < kAll; sent += kPart) {
    const WayChoice::Choice next = choice.next(in, out, read);
    if (next.way == Way::kRing) ring += kPart;
    choice.went(next, kPart);
  }
  return ring;
}

TEST(ShmWayChoice, TakesTheCheaperWayAndTriesTheOther) {
  constexpr std::size_t kAll = std::size_t{1} << 30, kFew = 65 * WayChoice::kTrial;
  for (const auto& [in, out, read] :
       {std::tuple(1u, 2u, 3u), {1u, 1u, 3u}, {10u, 11u, 12u}, {0u, 2u, 1u}, {9u, 9u, 0u}, {0u, 9u, 1u}}) {
    EXPECT_GE(through_ring(in, out, read), kAll - kFew) << in << ' ' << out << ' ' << read;
    EXPECT_LT(through_ring(in, out, read), kAll) << "the other way is tried";
  }
  for (const auto& [in, out, read] : {std::tuple(4u, 3u, 3u), {2u, 4u, 3u}}) {
    EXPECT_LE(through_ring(in, out, read), kFew) << in << ' ' << out << ' ' << read;
    EXPECT_GT(through_ring(in, out, read), 0u) << "the other way is tried";
  }
}

TEST(ShmWayChoice, UsesBothWaysWhereThatKeepsBothEndsBusy) {
  constexpr double kAll = std::size_t{1} << 30;
  EXPECT_DOUBLE_EQ(WayChoice::share_of_ring(4, 1, 3), 0.5);
  for (const auto& [in, out, read] : {std::tuple(4u, 1u, 3u), {200u, 100u, 220u}, {900u, 100u, 300u}}) {
    const double share = WayChoice::share_of_ring(in, out, read);
    EXPECT_NEAR(share * in, share * out + (1 - share) * read, 1e-6);
    EXPECT_NEAR(static_cast<double>(through_ring(in, out, read)) / kAll, share, 0.001);
  }
}

}  // namespace
}  // namespace tombolo::transport::shm
