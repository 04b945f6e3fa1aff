#include "transport/rdma/timeouts.h"

#include <gtest/gtest.h>

namespace tombolo::transport::rdma {
namespace {

using std::chrono::seconds;

TEST(RdmaTimeouts, FollowTheSpecificationsUnit) {
  EXPECT_EQ(ack_timeout(1), Duration(8192));
  EXPECT_EQ(ack_timeout(14), Duration(4096LL << 14));
  EXPECT_EQ(worst_silence(14, 7), Duration(4096LL << 14) * 4 * 8);
  EXPECT_EQ(worst_silence(14, 0), Duration(4096LL << 14) * 4);
}

TEST(RdmaTimeouts, ADeadPathIsNoticedWithinTheLimitAndNotNeedlesslyEarly) {
  for (int retries = 0; retries <= 7; ++retries) {
    for (int limit : {1, 2, 5, 10, 40, 60, 600}) {
      const int exponent = exponent_within(seconds(limit), retries);
      EXPECT_LE(worst_silence(exponent, retries), seconds(limit)) << limit << " s, " << retries << " retries";
      EXPECT_GT(worst_silence(exponent + 1, retries), seconds(limit))
          << limit << " s, " << retries << " retries";
    }
  }
}

TEST(RdmaTimeouts, StayWithinTheFieldOfFiveBits) {
  EXPECT_EQ(exponent_within(Duration(1), 7), 8);
  EXPECT_EQ(exponent_within(std::chrono::hours(100), 0), 31);
}

}  // namespace
}  // namespace tombolo::transport::rdma
