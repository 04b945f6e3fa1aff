#include "trainer/common_zero.h"

#include <gtest/gtest.h>

#include <array>

#include "collectives/testing/test_support.h"

namespace tombolo::trainer {
namespace {

// The ranks are threads, so that their clock is one: each must find rank 0's zero, to half its shortest round
// trip. Of sixteen the shortest takes a sixteenth of the time at most.
TEST(CommonZero, IsRankZerosWheneverTheOthersCome) {
  std::array<TimePoint, 4> zeros;
  std::array<Duration, 4> took;
  collectives::test::expect_fine(collectives::test::run_ranks("AABB", [&](collectives::Communicator& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    // Rank 3 comes once rank 1 has been answered, long after rank 0 began.
    char token = 0;
    if (rank == 3) world.receive(&token, 1, 1);
    const TimePoint begin = Clock::steady().now();
    zeros[rank] = common_zero(world);
    took[rank] = Clock::steady().now() - begin;
    if (rank == 1) world.send(&token, 1, 3);
  }));
  for (std::size_t rank = 1; rank < zeros.size(); ++rank)
    EXPECT_LE(std::chrono::abs(zeros[rank] - zeros[0]), took[rank] / 32) << "rank " << rank;
}

}  // namespace
}  // namespace tombolo::trainer
