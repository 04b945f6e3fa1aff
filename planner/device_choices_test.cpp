#include "planner/device_choices.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "planner/testing/testing.h"
#include "planner/testing/testing_launch.h"

namespace tombolo::planner {
namespace {

/// Hosts whose GPUs have a name of the library's, `rate` bytes per second apart inside a host.
struct FleetPart {
  std::string name;
  int hosts = 2, devices = 4;
  double rate = 3.6e11, flops = 5e14;
};

/// Clusters a, b, ... of such hosts.
topology::ClusterFile mixed_fleet(const std::vector<FleetPart>& all) {
  std::vector<testing::ClusterSpec> specs;
  for (const FleetPart& one : all)
    specs.push_back({std::string(1, static_cast<char>('a' + specs.size())), one.hosts, one.devices});
  auto cluster = testing::make_cluster(specs, 1e10);
  for (auto& host : cluster.hosts) {
    const FleetPart& one = all[static_cast<std::size_t>(host.cluster.front() - 'a')];
    host.device_bytes_per_second = one.rate;
    for (auto& device : host.devices) {
      device.name = one.name;
      device.kind = topology::DeviceKind::kGpu;
      device.flops_per_second = one.flops;
      device.memory_bytes = 32e9;
    }
  }
  return cluster;
}

const FleetPart kHoppers{"H100-SXM5-80GB"}, kAmperes{"A100-SXM4-80GB", 1, 4, 2.4e11, 2.5e14};

FleetPart voltas(double flops, int devices = 4) {
  return {"V100-SXM2-32GB", 1, devices, 1.2e11, flops};
}

Job mixed_job() {
  Job job;
  job.model = testing::small_model(16);
  job.model.hidden = 4096;
  job.model.heads = 32;
  job.model.context = 512;
  job.model.bytes_per_value = 2;
  job.global_batch = 48;
  job.tensor = 0;
  job.framework = Framework::kMegatron;
  return job;
}

PlanOptions options_by_devices(bool may_leave_out) {
  PlanOptions options;
  options.strategy = "flashflex";
  options.precision_by_devices = true;
  options.may_leave_out = may_leave_out;
  return options;
}

std::string all_notes(const Plan& plan) {
  std::string text;
  for (const std::string& note : plan.notes) text += note + '\n';
  return text;
}

TEST(DeviceChoices, ExchangesGoBesideProductsOnGpusThatCanWithoutFurtherAdo) {
  const auto suits = [](const std::vector<FleetPart>& gpus, const std::vector<std::string>& ranks = {}) {
    const auto cluster = mixed_fleet(gpus);
    const ClusterView view(cluster, "per-peer", {});
    return suits_tensor_overlap(view, launcher_slots(view, ranks));
  };
  EXPECT_TRUE(suits({kHoppers}));
  EXPECT_FALSE(suits({{"H100-PCIE-80GB", 2, 4, 6e10}})) << "no NVLink";
  EXPECT_FALSE(suits({kAmperes})) << "no multicast";
  EXPECT_FALSE(suits({{"H100-NVL-94GB", 2, 4, 2.4e11}})) << "bridges join two";
  EXPECT_FALSE(suits({{"MI300X"}})) << "no NVLink";
  EXPECT_FALSE(suits({{"nobody's"}}));
  EXPECT_FALSE(suits({kHoppers, kAmperes}));
  EXPECT_TRUE(suits({kHoppers, kAmperes}, {"a0", "a1"})) << "the ranks' hosts count";
}

TEST(DeviceChoices, AreThoseOfTheDevicesThatTakePart) {
  const auto cluster = mixed_fleet({kHoppers, voltas(1e14)});
  const ClusterView view(cluster, "per-peer", {});
  PlanOptions options = options_by_devices(false);
  options.overlap_by_devices = true;
  const auto decided = [&](const std::vector<std::string>& ranks) {
    return decided_for(view, launcher_slots(view, ranks), mixed_job(), options);
  };
  EXPECT_EQ(decided({}).multiplies_in(), Precision::kFp16);
  EXPECT_FALSE(decided({}).overlap_tensor);
  EXPECT_EQ(decided({"a0", "a1"}).multiplies_in(), Precision::kBf16);
  EXPECT_TRUE(decided({"a0", "a1"}).overlap_tensor);
  options.precision_by_devices = options.overlap_by_devices = false;
  EXPECT_EQ(decided({}).multiplies_in(), Precision::kBf16) << "as the job says";
}

TEST(DeviceChoices, RefuseGpusOfRanksThatTheSoftwareWasNotMeasuredOn) {
  const auto cluster = mixed_fleet({kHoppers, kAmperes});
  const ClusterView view(cluster, "per-peer", {});
  Job job = mixed_job();
  job.software = "nanotron";
  job.compute = library_profiles("megatron", job.software);
  EXPECT_NO_THROW(decided_for(view, launcher_slots(view, {"a0", "a1"}), job, {}));
  try {
    decided_for(view, launcher_slots(view, {}), job, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_MENTIONS(std::string(error.what()), "host b0 has GPUs A100-SXM4-80GB");
  }
  const auto choices = slot_choices(view, launcher_slots(view, {}), job, options_by_devices(true));
  ASSERT_EQ(choices.size(), 1u) << "where devices may stay idle, these do";
  EXPECT_EQ(choices.front().slots.size(), 8u);
}

TEST(DeviceChoices, NarrowToDevicesThatSuitOnlyWhereSomeMayStayIdle) {
  const auto cluster = mixed_fleet({kHoppers, kAmperes, voltas(1e14)});
  const ClusterView view(cluster, "per-peer", {});
  const auto sizes = [&](PlanOptions options) {
    std::vector<std::size_t> found;
    for (const SlotChoice& one : slot_choices(view, launcher_slots(view, {}), mixed_job(), options))
      found.push_back(one.slots.size());
    return found;
  };
  EXPECT_EQ(sizes(options_by_devices(false)), std::vector<std::size_t>{16});
  PlanOptions options = options_by_devices(true);
  EXPECT_EQ(sizes(options), (std::vector<std::size_t>{12, 16}));
  options.overlap_by_devices = true;
  EXPECT_EQ(sizes(options), (std::vector<std::size_t>{8, 12, 16}));
}

TEST(DeviceChoices, APlanThatLeavesOutAllGpusWithoutBf16IsForBf16) {
  const Plan plan = make_plan(mixed_fleet({kHoppers, voltas(1e12)}), mixed_job(), options_by_devices(true));
  EXPECT_EQ(plan.job.multiplies_in(), Precision::kBf16);
  EXPECT_EQ(plan.left_out.size(), 4u);
  EXPECT_MENTIONS(all_notes(plan), "left out: 4 V100-SXM2-32GB of b0: one layer takes");
  PlanOptions generous = options_by_devices(true);
  generous.tolerance = 0.9;  // with them a step would be shorter, but in fp16
  EXPECT_MENTIONS(all_notes(make_plan(mixed_fleet({kHoppers, voltas(5e14)}), mixed_job(), generous)),
                  "left out: 4 V100-SXM2-32GB of b0, which have no bf16");
  EXPECT_EQ(make_plan(mixed_fleet({kHoppers, voltas(1e12)}), mixed_job(), options_by_devices(false))
                .job.multiplies_in(),
            Precision::kFp16)
      << "all take part";
}

TEST(DeviceChoices, AreForFp16WhereTheGpusWithoutBf16MakeAStepShorter) {
  const Plan plan = make_plan(mixed_fleet({kHoppers, voltas(5e14)}), mixed_job(), options_by_devices(true));
  EXPECT_EQ(plan.job.multiplies_in(), Precision::kFp16);
  EXPECT_MENTIONS(all_notes(plan), "on 8 devices, in bf16, a step would take");
}

TEST(DeviceChoices, GpusThatAreLeftOutForTheirSlownessAreSaidToBeSlow) {
  FleetPart slow = kAmperes;
  slow.flops = 3e12;
  PlanOptions options = options_by_devices(true);
  options.overlap_by_devices = true;
  Job job = mixed_job();
  job.tensor = 1;  // nothing is exchanged beside products
  const Plan plan = make_plan(mixed_fleet({kHoppers, slow}), job, options);
  EXPECT_EQ(plan.left_out.size(), 4u);
  EXPECT_MENTIONS(all_notes(plan), "left out: 4 A100-SXM4-80GB of b0: one layer takes");
  EXPECT_SILENT_ON(all_notes(plan), "without further ado");
}

TEST(DeviceChoices, NothingIsSaidWhereAllDevicesSuit) {
  PlanOptions options = options_by_devices(true);
  options.overlap_by_devices = true;
  Job job = mixed_job();
  job.sequence_parallel = true;
  const Plan plan = make_plan(mixed_fleet({kHoppers}), job, options);
  EXPECT_SILENT_ON(all_notes(plan), "exchanges beside products, a step would take") << "whatever it shares";
}

TEST(DeviceChoices, HostsThatAreTooSmallForTheFrameworkDoNotCount) {
  const Plan plan =
      make_plan(mixed_fleet({kHoppers, voltas(1e12, 2)}), mixed_job(), options_by_devices(false));
  ASSERT_EQ(plan.left_out.size(), 2u) << "Megatron-LM starts equally many ranks on every node";
  EXPECT_EQ(plan.job.multiplies_in(), Precision::kBf16);
}

TEST(DeviceChoices, AFrameworkWithoutFp16LeavesOutTheGpusThatNeedIt) {
  Job job = mixed_job();
  job.framework = Framework::kTorchTitan;
  job.sequence_parallel = true;
  job.model.gated = true;
  job.model.biases = job.model.learned_positions = job.model.tied_embeddings = false;
  PlanOptions options = options_by_devices(true);
  options.savings = {{Recompute::kNone, Sharding::kGradients}};
  const auto cluster = mixed_fleet({kHoppers, voltas(1e14)});
  EXPECT_EQ(make_plan(cluster, job, options).left_out.size(), 4u);
  options.may_leave_out = false;
  EXPECT_THROW(make_plan(cluster, job, options), Error);
}

}  // namespace
}  // namespace tombolo::planner
