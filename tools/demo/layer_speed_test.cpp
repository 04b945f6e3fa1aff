#include "tools/demo/layer_speed.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tools/cli/testing.h"
#include "tools/demo/options.h"

namespace tombolo::tools::demo {
namespace {

planner::Profile measured_profile() {
  planner::Profile profile;
  profile.measurements.push_back({"", "layer", 1, 2, {0.01, 0.03, 0.002, 0}});
  return profile;
}

TEST(LayerSpeed, CountsABackwardPassAsTwoForwardOnes) {
  const double forward = demo_job().model.layer_forward_flops();
  EXPECT_DOUBLE_EQ(flops_per_second(measured_profile(), 2), 3 * 2 * forward / 0.04);
}

TEST(LayerSpeed, GoesIntoEveryDeviceOfTheCluster) {
  topology::ClusterFile cluster;
  cluster.hosts.resize(2);
  for (auto& host : cluster.hosts) host.devices.resize(2);
  cluster = with_speed(cluster, measured_profile(), 2);
  const double touched = 36.0 * static_cast<double>(demo_job().model.layer_parameters());
  for (const auto& host : cluster.hosts)
    for (const auto& device : host.devices) {
      EXPECT_DOUBLE_EQ(device.flops_per_second, flops_per_second(measured_profile(), 2));
      EXPECT_DOUBLE_EQ(device.memory_bytes_per_second, touched / 0.002);
    }
}

TEST(LayerSpeed, NeedsTheLayersTimes) {
  EXPECT_MENTIONS(error_of([] { flops_per_second(planner::Profile(), 2); }, Cause::kInternal),
                  "micro_batch=2");
}

TEST(LayerSpeed, IsMeasuredForEveryMicroBatch) {
  const planner::Profile profile = measure_layers({1, 2}, 0.01);
  EXPECT_EQ(profile.model, demo_job().model);
  EXPECT_EQ(profile.micro_batches(""), (std::vector<int>{1, 2}));
  for (const int rows : {1, 2}) EXPECT_GT(flops_per_second(profile, rows), 0);
}

}  // namespace
}  // namespace tombolo::tools::demo
