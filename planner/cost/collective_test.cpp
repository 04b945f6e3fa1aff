#include "planner/cost/collective.h"

#include <gtest/gtest.h>

namespace tombolo::planner {
namespace {

TEST(CollectiveSeconds, FollowTheRing) {
  const CollectiveLink link{4, 1e-9, 1e-6};
  EXPECT_DOUBLE_EQ(collective_seconds(Collective::kAllReduce, 4e6, link), 2 * 3 * (1e-3 + 1e-6));
  EXPECT_DOUBLE_EQ(collective_seconds(Collective::kReduceScatter, 4e6, link), 3 * (1e-3 + 1e-6));
  EXPECT_DOUBLE_EQ(collective_seconds(Collective::kAllGather, 4e6, link), 3 * (1e-3 + 1e-6));
  EXPECT_EQ(collective_seconds(Collective::kAllReduce, 4e6, {1, 1e-9, 1e-6}), 0);
}

}  // namespace
}  // namespace tombolo::planner
