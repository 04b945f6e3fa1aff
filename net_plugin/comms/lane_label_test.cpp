#include "net_plugin/comms/lane_label.h"

#include <gtest/gtest.h>

#include <limits>

namespace tombolo::net_plugin {
namespace {

TEST(LaneLabel, CarriesCommAndAnyTag) {
  for (const std::uint32_t comm : {0U, 1U, 123'456'789U, LaneLabel::kMostComm}) {
    const LaneLabel first = LaneLabel::decode(LaneLabel{comm, std::nullopt}.encode());
    EXPECT_EQ(first.comm, comm);
    EXPECT_FALSE(first.tag);
    for (const int tag : {0, 1, 7, -1, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()}) {
      const LaneLabel lane = LaneLabel::decode(LaneLabel{comm, tag}.encode());
      EXPECT_EQ(lane.comm, comm);
      EXPECT_EQ(lane.tag, tag);
    }
  }
}

TEST(LaneLabel, LeavesItsFreeBitZero) {
  for (const int tag : {0, -1}) {
    EXPECT_EQ((LaneLabel{LaneLabel::kMostComm, tag}.encode() >> 32 & 1), 0U);
  }
}

}  // namespace
}  // namespace tombolo::net_plugin
