#include <gtest/gtest.h>

#include <algorithm>

#include "planner/search/shape_search.h"
#include "planner/testing/testing_search.h"

namespace tombolo::planner {
namespace {

using testing::free_job;
using testing::gpu_cluster;
using testing::SearchSetting;
using topology::NicKind;

std::vector<Ranked> columns_of(const SearchSetting& setting, std::size_t most) {
  Estimator estimator(setting.context, setting.job, setting.pools);
  return column_shapes(setting.context, setting.job, setting.pools, estimator, most);
}

TEST(ShapeColumns, UseEveryDeviceAndHoldTheModelAndTheBatch) {
  const SearchSetting setting(gpu_cluster({{"a", 2, 4, NicKind::kTcp, 0, 4e9}, {"b", 2, 2}}, 1e8),
                              free_job(12, 32));
  const auto found = columns_of(setting, 20);
  ASSERT_FALSE(found.empty());
  EXPECT_LE(found.size(), 20u);
  EXPECT_TRUE(std::ranges::is_sorted(found, {}, &Ranked::seconds));
  for (const Ranked& ranked : found) {
    for (const int idle : idle_devices(ranked.shape, setting.pools)) EXPECT_EQ(idle, 0);
    int micro_batches = 0;
    for (const Shape::Kind& kind : ranked.shape.kinds) {
      micro_batches += kind.micro_batches;
      int layers = 0;
      for (const Shape::PipelineSlot& slot : kind.slots) layers += slot.layers;
      EXPECT_EQ(layers, 12);
    }
    EXPECT_EQ(micro_batches * ranked.shape.micro_batch, 32);
  }
}

TEST(ShapeColumns, AllReplicasOfAGroupTakeAsMuchOfEachHost) {
  const SearchSetting setting(gpu_cluster({{"a", 2, 4}}, 1e8), free_job(12, 32));
  bool columns = false;
  for (const Ranked& ranked : columns_of(setting, 50))
    for (const Shape::Kind& kind : ranked.shape.kinds) columns |= kind.count > 1 && kind.slots.size() > 1;
  EXPECT_TRUE(columns) << "replicas side by side on every host";
}

TEST(ShapeColumns, ObeyWhatTheJobFixes) {
  SearchSetting setting(gpu_cluster({{"a", 2, 4}}, 1e8), free_job(12, 32));
  setting.job.data = 4;
  setting.job.micro_batch = 2;
  const auto found = columns_of(setting, 50);
  ASSERT_FALSE(found.empty());
  for (const Ranked& ranked : found) {
    EXPECT_EQ(ranked.shape.replicas(), 4);
    EXPECT_EQ(ranked.shape.micro_batch, 2);
  }
}

TEST(ShapeColumns, LeaveSlowDevicesOutOnlyWhereTheyMay) {
  SearchSetting setting(
      gpu_cluster({{"fast", 1, 2, NicKind::kTcp, 0, 4e9}, {"slow", 1, 2, NicKind::kTcp, 0, 1e7}}, 1e8),
      free_job(4, 8));
  const double all = columns_of(setting, 1).at(0).seconds;
  setting.options.may_leave_out = true;
  const Ranked best = columns_of(setting, 1).at(0);
  EXPECT_LT(best.seconds, all);
  EXPECT_EQ(idle_devices(best.shape, setting.pools), (std::vector<int>{0, 2}));
}

}  // namespace
}  // namespace tombolo::planner
