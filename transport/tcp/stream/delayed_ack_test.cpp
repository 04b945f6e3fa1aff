#include "transport/tcp/stream/delayed_ack.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace tombolo::transport::tcp {
namespace {

constexpr std::size_t kMostBytes = 1000;

TEST(DelayedAck, IsDueAfterSoManyBytes) {
  DelayedAck ack;
  EXPECT_FALSE(ack.due(0)) << "nothing has come";
  for (int round = 0; round < 3; ++round) {
    ack.came(kMostBytes - 1, kMostBytes, 0);
    EXPECT_FALSE(ack.due(0));
    ack.came(1, kMostBytes, 0);
    EXPECT_TRUE(ack.due(0));
    EXPECT_EQ(ack.count(), 2U * (round + 1)) << "what was told before counts, too";
    ack.told();
    EXPECT_FALSE(ack.due(0));
  }
}

TEST(DelayedAck, IsDueAfterSoManyChunksWithoutBytes) {
  DelayedAck ack;
  for (std::uint32_t i = 1; i < 128; ++i) {
    ack.came(0, kMostBytes, 0);
    ASSERT_FALSE(ack.due(0)) << i;
  }
  ack.came(0, kMostBytes, 0);
  EXPECT_TRUE(ack.due(0));
  EXPECT_EQ(ack.count(), 128U);
}

TEST(DelayedAck, IsDueWhenThePeerAsksForWhatIsUntold) {
  DelayedAck ack;
  ack.came(1, kMostBytes, 7);
  EXPECT_FALSE(ack.due(7)) << "it had asked before the chunk came";
  EXPECT_TRUE(ack.due(8));
  ack.came(1, kMostBytes, 8);
  EXPECT_TRUE(ack.due(8)) << "a later chunk does not hide that the first is asked for";
  ack.told();
  EXPECT_FALSE(ack.due(9)) << "nothing is untold";
  ack.came(1, kMostBytes, 9);
  EXPECT_FALSE(ack.due(9));
}

TEST(DelayedAck, GoesOutEarlierWhereThisEndIsIdle) {
  DelayedAck ack;
  ack.came(128 * 1024 - 1, SIZE_MAX, 0);
  ack.idle();
  EXPECT_FALSE(ack.due(0)) << "too little to be worth a frame";
  ack.came(1, SIZE_MAX, 0);
  EXPECT_FALSE(ack.due(0)) << "it is not idle any more";
  ack.idle();
  EXPECT_TRUE(ack.due(0));
}

}  // namespace
}  // namespace tombolo::transport::tcp
