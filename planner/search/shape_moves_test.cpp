#include <gtest/gtest.h>

#include "planner/search/shape_search.h"
#include "planner/testing/testing_search.h"

namespace tombolo::planner {
namespace {

using testing::free_job;
using testing::gpu_cluster;
using testing::SearchSetting;

TEST(ShapeMoves, ImprovesAndKeepsToTheRules) {
  for (const bool may_leave_out : {false, true}) {
    SearchSetting setting(gpu_cluster({{"fast", 2, 4, topology::NicKind::kTcp, 0, 4e9},
                                       {"slow", 1, 3, topology::NicKind::kTcp, 0, 1e8}},
                                      5e7),
                          free_job(12, 16));
    setting.options.may_leave_out = may_leave_out;
    Estimator estimator(setting.context, setting.job, setting.pools);
    Shape shape;
    shape.kinds = {{{{2, 1, 1}, {2, 1, 1}, {2, 1, 1}, {0, 4, 4}, {1, 4, 5}}, 1, 16}};
    const Ranked start{estimator.seconds(shape), shape};
    const Ranked found =
        improved_shape(setting.context, setting.job, setting.pools, estimator, start, 200'000, 1);
    EXPECT_LT(found.seconds, start.seconds);
    int idle = 0;
    for (const int count : idle_devices(found.shape, setting.pools)) {
      EXPECT_GE(count, 0);
      idle += count;
    }
    EXPECT_EQ(idle > 0, may_leave_out) << "a fortieth of the speed is not worth a stage";
    EXPECT_LT(Scorer(setting.context, setting.job).seconds(layout_of(found.shape, setting.pools)),
              Scorer::kNever);
    const Ranked again =
        improved_shape(setting.context, setting.job, setting.pools, estimator, start, 200'000, 1);
    EXPECT_EQ(again.shape, found.shape);
  }
}

}  // namespace
}  // namespace tombolo::planner
