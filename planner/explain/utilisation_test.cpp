#include "planner/explain/utilisation.h"

#include <gtest/gtest.h>

#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

topology::ClusterFile gpus(const std::string& name) {
  auto cluster = testing::make_cluster({{"a", 1, 2}}, 1e9);
  for (auto& device : cluster.hosts[0].devices) {
    device.kind = topology::DeviceKind::kGpu;
    device.name = name;
  }
  return cluster;
}

TEST(Utilisation, IsTheModelsFlopsOverThePeaksOfAllRanks) {
  Model model = testing::small_model(4);
  model.bytes_per_value = 2;
  Plan plan = testing::simple_plan(model, {"a0", "a0"}, 2, 1, 8);
  plan.job.recompute = Recompute::kFull;
  const double forward = 4 * (24.0 * 32 * 64 * 64 + 4.0 * 32 * 32 * 64) + 2.0 * 32 * 64 * 16;
  const Utilisation seen = utilisation_of(plan, gpus("H100-SXM5-80GB"), 0.5);
  EXPECT_NEAR(seen.flops_per_second, 3 * 8 * forward / 0.5 / 2, 1e-6 * seen.flops_per_second);
  EXPECT_NEAR(seen.of_peak, seen.flops_per_second / 989.5e12, 1e-3 * seen.of_peak);
}

TEST(Utilisation, IsNotKnownWhereAPeakIsNot) {
  const Plan plan = testing::simple_plan(testing::small_model(4), {"a0", "a0"}, 2, 1, 8);
  EXPECT_EQ(utilisation_of(plan, gpus("a GPU of tomorrow"), 1).of_peak, 0);
  EXPECT_EQ(utilisation_of(plan, testing::make_cluster({{"a", 1, 2}}, 1e9), 1).of_peak, 0) << "no GPU";
}

TEST(Utilisation, OfBf16CountsFp16WhereAGpuHasNoOther) {
  Model model = testing::small_model(4);
  model.bytes_per_value = 2;
  const Plan plan = testing::simple_plan(model, {"a0", "a0"}, 2, 1, 8);
  const Utilisation seen = utilisation_of(plan, gpus("V100-SXM2-32GB"), 1);
  EXPECT_NEAR(seen.of_peak, seen.flops_per_second / 125e12, 1e-3 * seen.of_peak);
}

}  // namespace
}  // namespace tombolo::planner
