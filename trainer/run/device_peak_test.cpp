#include "trainer/run/device_peak.h"

#include <gtest/gtest.h>

#include "collectives/testing/test_support.h"

namespace tombolo::trainer {
namespace {

TEST(DevicePeak, ThreadsBeyondARanksShareOfTheCoresAddNothing) {
  EXPECT_EQ(usable_cores(1, 8, 4), 1);
  EXPECT_EQ(usable_cores(4, 8, 4), 2);
  EXPECT_EQ(usable_cores(1, 2, 4), 0.5);
  EXPECT_EQ(usable_cores(2, 0, 1), 1);  // the number of cores is unknown
}

TEST(DevicePeak, IsTheSumOverTheRanksUnlessOneIsUnknown) {
  EXPECT_EQ(total_peak(5e12, 0, nullptr), 5e12);
  collectives::test::expect_fine(collectives::test::run_ranks("AB", [](collectives::Communicator& world) {
    EXPECT_EQ(total_peak(world.rank() == 0 ? 3e12 : 4e12, 0, &world), 7e12);
    EXPECT_EQ(total_peak(world.rank() == 0 ? 3e12 : 0, 0, &world), 0);
  }));
}

}  // namespace
}  // namespace tombolo::trainer
