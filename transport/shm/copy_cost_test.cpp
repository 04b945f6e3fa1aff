#include "transport/shm/copy_cost.h"

#include <gtest/gtest.h>

namespace tombolo::transport::shm {
namespace {

using Way = WayChoice::Way;

void add(CopyCost& cost, int nanoseconds) {
  cost.add(std::chrono::nanoseconds(nanoseconds), 1000);
}

TEST(ShmCopyCost, FollowsWhatCopiesTakeButNotOneOfThem) {
  CopyCost cost;
  EXPECT_EQ(cost.value(), 0u);
  add(cost, 1000);
  EXPECT_EQ(cost.value(), 1000u);
  add(cost, 1'000'000);  // the process lost its processor
  EXPECT_LE(cost.value(), 1200u);
  add(cost, 1);
  EXPECT_GE(cost.value(), 900u);
  for (const int now : {300, 5000}) {
    for (int i = 0; i < 40; ++i) add(cost, now);
    EXPECT_EQ(cost.value(), static_cast<std::uint32_t>(now));
  }
  for (int i = 0; i < 200; ++i) add(cost, -1);
  EXPECT_EQ(cost.value(), 1u) << "known, whatever the clock says";
}

/// Bytes of a hundred megabytes that go through the ring.
std::size_t through_ring(std::uint32_t in, std::uint32_t out, std::uint32_t read) {
  constexpr std::size_t kAll = 100'000'000, kPart = 64 * 1024;
  WayChoice choice;
  std::size_t ring = 0;
  for (std::size_t sent = 0; sent < kAll; sent += kPart) {
    if (choice.next(in, out, read) == Way::kRing) ring += kPart;
    choice.went(kPart);
  }
  return ring;
}

TEST(ShmWayChoice, TakesTheCheaperWayAndTriesTheOther) {
  constexpr std::size_t kFew = 1'000'000, kMost = 99'000'000;
  for (const auto& [in, out, read] :
       {std::tuple(1u, 2u, 3u), {2u, 1u, 3u}, {2u, 2u, 2u}, {0u, 2u, 1u}, {9u, 9u, 0u}}) {
    EXPECT_GT(through_ring(in, out, read), kMost) << in << ' ' << out << ' ' << read;
    EXPECT_LT(through_ring(in, out, read), 100'000'000u) << "the other way is tried";
  }
  for (const auto& [in, out, read] : {std::tuple(4u, 2u, 3u), {2u, 4u, 3u}}) {
    EXPECT_LT(through_ring(in, out, read), kFew) << in << ' ' << out << ' ' << read;
    EXPECT_GT(through_ring(in, out, read), 0u) << "the other way is tried";
  }
}

}  // namespace
}  // namespace tombolo::transport::shm
