#include "trainer/run/common_time_base.h"

#include <gtest/gtest.h>

#include <array>

#include "collectives/testing/test_support.h"

namespace tombolo::trainer {
namespace {

// The ranks are threads and share one clock, so that each must find rank 0's zero within half its shortest
// round trip. The shortest of sixteen round trips takes at most a sixteenth of the whole time.
TEST(CommonTimeBase, IsRankZerosWheneverTheOthersCome) {
  std::array<TimePoint, 4> zeros;
  std::array<Duration, 4> took;
  collectives::test::expect_fine(collectives::test::run_ranks("AABB", [&](collectives::Communicator& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    // Rank 3 begins once rank 1 has its answers, long after rank 0 began.
    char token = 0;
    if (rank == 3) world.receive(&token, 1, 1);
    const TimePoint begin = Clock::steady().now();
    zeros[rank] = common_time_base(world);
    took[rank] = Clock::steady().now() - begin;
    if (rank == 1) world.send(&token, 1, 3);
  }));
  for (std::size_t rank = 1; rank < zeros.size(); ++rank)
    EXPECT_LE(std::chrono::abs(zeros[rank] - zeros[0]), took[rank] / 32) << "rank " << rank;
}

}  // namespace
}  // namespace tombolo::trainer
