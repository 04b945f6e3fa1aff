#include "planner/cost/reserve.h"

#include <gtest/gtest.h>

#include "planner/planner.h"
#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;

topology::Device gpu(double memory) {
  topology::Device device;
  device.kind = topology::DeviceKind::kGpu;
  device.memory_bytes = memory;
  return device;
}

TEST(Reserve, IsWhatSailorsRunHeldBesideTensors) {
  EXPECT_NEAR(reserved_memory({}, gpu(96e9)), 4.52 * kGib, 0.05 * kGib);
  EXPECT_EQ(usable_memory({}, gpu(96e9)), 96e9 - reserved_memory({}, gpu(96e9)));
}

TEST(Reserve, OfACpuOrWhereAProfileHasItIsNone) {
  topology::Device cpu = gpu(1e9);
  cpu.kind = topology::DeviceKind::kCpu;
  EXPECT_EQ(usable_memory({}, cpu), 1e9);
  Job job;
  auto profile = std::make_shared<Profile>();
  profile->overhead_bytes = 5;
  job.profile = profile;
  EXPECT_EQ(usable_memory(job, gpu(80e9)), 80e9);
}

TEST(Reserve, CanBeGiven) {
  Job job;
  job.reserve_bytes = 3e9;
  EXPECT_EQ(usable_memory(job, gpu(8e9)), 5e9);
  EXPECT_EQ(usable_memory(job, gpu(2e9)), 1) << "known, and nothing fits";
  EXPECT_EQ(usable_memory(job, gpu(0)), 0) << "unknown";
}

TEST(Reserve, NoPlanUsesItAndThePlanSaysSo) {
  auto cluster = testing::make_cluster({{"a", 2, 1}}, 1e9);
  for (auto& host : cluster.hosts) host.devices[0].kind = topology::DeviceKind::kGpu;
  Job job;
  job.model = testing::small_model(4);
  job.global_batch = 8;
  job.framework = Framework::kMegatron;
  job.pipeline = 2;
  job.reserve_bytes = 0;
  for (auto& host : cluster.hosts) host.devices[0].memory_bytes = 1e12;
  const Plan roomy = make_plan(cluster, job, {});
  std::uint64_t most = 0;
  for (const RankMemory& memory : roomy.prediction.memory) most = std::max(most, memory.total);
  for (auto& host : cluster.hosts) host.devices[0].memory_bytes = static_cast<double>(most) + 1000;
  EXPECT_NO_THROW((void)make_plan(cluster, job, {}));
  job.reserve_bytes = 1000;
  const Plan just = make_plan(cluster, job, {});
  EXPECT_TRUE(std::ranges::any_of(just.notes, [](const std::string& note) {
    return note.find("1000 B of each test are kept free") != std::string::npos;
  })) << (just.notes.empty() ? "" : just.notes.front());
  job.reserve_bytes = 1001;
  EXPECT_THROW((void)make_plan(cluster, job, {}), std::exception);
}

}  // namespace
}  // namespace tombolo::planner
