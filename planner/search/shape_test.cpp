#include "planner/search/shape.h"

#include <gtest/gtest.h>

#include "planner/testing/testing_search.h"

namespace tombolo::planner {
namespace {

using testing::free_job;
using testing::gpu_cluster;
using testing::SearchSetting;

TEST(Shape, BecomesALayoutAndBack) {
  const SearchSetting setting(
      gpu_cluster({{"fast", 2, 4, topology::NicKind::kTcp, 0, 4e9}, {"slow", 1, 2}}, 1e8), free_job(12, 24));
  ASSERT_EQ(setting.pools.size(), 3u);
  EXPECT_EQ(setting.pools[0].type, setting.pools[1].type);
  EXPECT_NE(setting.pools[0].type, setting.pools[2].type);
  Shape shape;
  shape.micro_batch = 2;
  shape.kinds = {{{{0, 1, 5}, {1, 2, 7}}, 2, 10}, {{{2, 1, 12}}, 1, 2}};
  EXPECT_EQ(shape.replicas(), 3);
  EXPECT_EQ(idle_devices(shape, setting.pools), (std::vector<int>{2, 0, 1}));
  const Layout layout = layout_of(shape, setting.pools);
  ASSERT_EQ(layout.replicas.size(), 3u);
  EXPECT_EQ(layout.replicas[1].slots[1].ranks, (std::vector<int>{6, 7}));
  EXPECT_EQ(layout.replicas[0].rows, 10);
  EXPECT_EQ(shape_of(layout, setting.pools), shape);
}

}  // namespace
}  // namespace tombolo::planner
