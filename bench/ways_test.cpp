#include "bench/ways.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

namespace tombolo::bench {
namespace {

TEST(Ways, TheMedianIsTheUpperMiddleOne) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 3, 2}), 3);
}

TEST(Ways, AMeasurementHasOneEntryPerRepetitionAtBothEnds) {
  const auto [near, far] = plain_pair();
  PlainTcp leading(near), following(far);
  constexpr std::size_t kSize = 512;
  std::vector<std::byte> out(kOutstanding * kSize), in(out.size());
  Figure there, here;
  std::thread peer([&] { measure(following, false, 1e5, kSize, in, there); });
  measure(leading, true, 1e5, kSize, out, here);
  peer.join();
  for (const Figure* each : {&there, &here}) {
    ASSERT_EQ(each->half_round_trips.size(), 1U);
    ASSERT_EQ(each->rates.size(), 1U);
    ASSERT_EQ(each->processor.size(), 1U);
    EXPECT_GT(each->half_round_trips[0], 0);
    EXPECT_GT(each->rates[0], 0);
  }
  ::close(near);
  ::close(far);
}

}  // namespace
}  // namespace tombolo::bench
