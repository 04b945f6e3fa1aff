#include "planner/plan/device_precision.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "planner/testing/testing.h"
#include "planner/testing/testing_launch.h"

namespace tombolo::planner {
namespace {

TEST(DevicePrecision, IsThatOfTheDevicesThatTakePart) {
  auto cluster = testing::make_cluster({{"a", 1, 2}, {"b", 1, 2}}, 1e9);
  for (auto& host : cluster.hosts)
    for (auto& device : host.devices) {
      device.kind = topology::DeviceKind::kGpu;
      device.name = host.name == "a0" ? "H100-SXM5-80GB" : "V100-SXM2-32GB";
    }
  Job job;
  job.model = testing::small_model(4);
  job.model.bytes_per_value = 2;
  job.framework = Framework::kMegatron;
  const auto all = [](const std::string&, int) { return true; };
  const auto first = [](const std::string& host, int) { return host == "a0"; };
  EXPECT_EQ(precision_on(cluster, job, all), Precision::kFp16);
  EXPECT_EQ(precision_on(cluster, job, first), Precision::kBf16);
  job.framework = Framework::kTorchTitan;
  EXPECT_EQ(precision_on(cluster, job, first), Precision::kBf16);
  try {
    precision_on(cluster, job, all);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kUnsupported);
    for (const char* part : {"torchtitan has no fp16", "V100-SXM2-32GB of host b0", "--dtype fp32"})
      EXPECT_MENTIONS(std::string(error.what()), part);
  }
}

}  // namespace
}  // namespace tombolo::planner
