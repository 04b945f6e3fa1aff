#include "transport/shm/copy_cost.h"

#include <gtest/gtest.h>

namespace tombolo::transport::shm {
namespace {

using std::chrono::microseconds;
using Way = WayChoice::Way;

TEST(ShmCopyCost, FallsAtOnceAndRisesSlowly) {
  CopyCost cost;
  EXPECT_EQ(cost.value(), 0u);
  cost.add(microseconds(100), 100'000);
  EXPECT_EQ(cost.value(), 1000u);
  cost.add(microseconds(3000), 100'000);  // the process lost its processor
  EXPECT_LE(cost.value(), 1200u);
  cost.add(microseconds(50), 100'000);
  EXPECT_EQ(cost.value(), 500u);
  for (int i = 0; i < 40; ++i) cost.add(microseconds(400), 100'000);
  EXPECT_EQ(cost.value(), 4000u) << "it is so dear now";
  cost.add(Duration(-1), 100'000);
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
