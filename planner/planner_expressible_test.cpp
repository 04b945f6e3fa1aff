// What the search plans for a framework, that framework's launch script can say.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/randomized_test.h"
#include "planner/choices.h"
#include "planner/launch/launch.h"
#include "planner/model/compute_profile.h"
#include "planner/model/model_library.h"
#include "planner/planner.h"
#include "planner/testing/testing_launch.h"

namespace tombolo::planner {
namespace {

using topology::NicKind;

struct Fleet {
  std::string_view name;
  topology::ClusterFile cluster;
};

topology::ClusterFile fleet_of(const std::vector<testing::ClusterSpec>& specs,
                               const std::vector<std::string>& devices) {
  auto cluster = testing::make_cluster(specs, 1.2e9, 1e-4);
  for (auto& host : cluster.hosts)
    for (auto& device : host.devices) {
      const std::size_t of = static_cast<std::size_t>(host.cluster.front() - 'a');
      device.kind = topology::DeviceKind::kGpu;
      device.name = devices[of];
      device.memory_bytes = device.name == "V100-SXM2-32GB" ? 32e9 : 80e9;
      device.flops_per_second =
          device.name == "H100-SXM5-80GB" ? 5e14 : 1e14 * (1.5 - static_cast<double>(of));
    }
  return cluster;
}

/// Alike GPUs; two clusters of unlike speed; three stages' worth of hosts; GPUs without bf16.
std::vector<Fleet> fleets() {
  return {{"alike", fleet_of({{"a", 2, 4, NicKind::kInfiniBand, 2e10}}, {"H100-SXM5-80GB"})},
          {"unlike", fleet_of({{"a", 1, 4, NicKind::kInfiniBand, 2e10}, {"b", 2, 4, NicKind::kRoce, 1e10}},
                              {"H100-SXM5-80GB", "A100-SXM4-80GB"})},
          {"single", fleet_of({{"a", 3, 1}}, {"A100-SXM4-80GB"})},
          {"old", fleet_of({{"a", 2, 4, NicKind::kInfiniBand, 1e10}}, {"V100-SXM2-32GB"})}};
}

/// As `tombolo plan --model TEXT --strategy auto --framework ...` makes it.
Plan planned(const topology::ClusterFile& cluster, const std::string& model, Framework framework,
             const FixedChoices& fixed = {}) {
  Job job;
  job.model = resolve_model(model);
  job.framework = framework;
  job.global_batch = 48;
  job.tensor = 0;
  job.expert_parallel = job.model.experts > 0 && traits(framework).expert_parallel ? 0 : 1;
  job.compute = library_profiles(framework_name(framework));
  PlanOptions options;
  options.strategy = "auto";
  options.precision_by_devices = true;
  open_choices(fixed, true, job, options);
  return make_plan(cluster, job, options);
}

class EveryPlanIsExpressible : public ::testing::TestWithParam<Framework> {};

TEST_P(EveryPlanIsExpressible, InItsFrameworksOwnScript) {
  const Launcher own = *launcher_from_name(framework_name(GetParam()));
  int plans = 0;
  std::uint32_t tried = 0;
  const std::uint32_t seed = test_seed();
  for (const auto& [name, cluster] : fleets())
    for (const char* model : {"llama3-8b,context=2048", "gpt3-6.7b,layers=30", "llama2-7b,layers=23",
                              "mixtral-8x7b,layers=6,context=1024", "qwen3-30b-a3b,context=1024",
                              "deepseek-v2,layers=3,context=1024"}) {
      if (kSanitized && tried++ % 6 != seed % 6) continue;  // all would take a sanitizer minutes
      SCOPED_TRACE(fmt::format("{} on {}", model, name));
      std::optional<Plan> plan;
      try {
        plan = planned(cluster, model, GetParam());
      } catch (const Error& error) {
        // That nothing can be planned is said by the search, and not after it.
        const std::string why = error.what();
        EXPECT_TRUE(why.find("no plan fits") != why.npos || why.find("for another framework") != why.npos)
            << why;
        continue;
      }
      ++plans;
      for (const Launcher launcher : {own, Launcher::kTorchrun, Launcher::kSlurm, Launcher::kMpi}) {
        std::string script;
        EXPECT_NO_THROW(script = emit(launcher, *plan, cluster, "/cluster.json")) << launcher_name(launcher);
        EXPECT_SILENT_ON(script, "NOT EXPRESSIBLE");
        EXPECT_SILENT_ON(script, "each stage gets 0 of them");
        EXPECT_SILENT_ON(script, "did not count on");
      }
    }
  if (!kSanitized) {
    EXPECT_GE(plans, GetParam() == Framework::kTorchTitan ? 10 : 14);
  }
}

INSTANTIATE_TEST_SUITE_P(Frameworks, EveryPlanIsExpressible,
                         ::testing::Values(Framework::kMegatron, Framework::kNeMo, Framework::kTorchTitan,
                                           Framework::kDeepSpeed),
                         [](const auto& one) { return std::string(framework_name(one.param)); });

TEST(Expressible, LeavesOutSchedulesThatDoNotGoWithWhatIsFixed) {
  const auto cluster = fleets().front().cluster;
  const std::string model = "llama3-8b,context=2048";
  FixedChoices again;
  again.recompute = Recompute::kFull;
  again.recompute_layers = 0;
  const Plan whole = planned(cluster, model, Framework::kTorchTitan, again);
  EXPECT_EQ(whole.job.recompute, Recompute::kFull);
  FixedChoices beside;
  beside.overlap_tensor = true;
  const Plan overlapping = planned(cluster, model, Framework::kTorchTitan, beside);
  for (const Plan& plan : {whole, overlapping}) {
    // Nor does overlap of the degree 1, which is nothing, stand in that schedule's way.
    if (plan.job.recompute == Recompute::kFull || plan.job.overlap_tensor) {
      EXPECT_NE(plan.job.schedule, Schedule::kInterleavedZeroBubble);
    }
    EXPECT_NO_THROW(emit(Launcher::kTorchTitan, plan, cluster, "/cluster.json"));
  }
  // Where the schedule is fixed, too, nothing goes with it.
  again.schedule = Schedule::kInterleavedZeroBubble;
  try {
    planned(cluster, model, Framework::kTorchTitan, again);
    FAIL();
  } catch (const Error& error) {
    EXPECT_MENTIONS(std::string(error.what()), "no recomputation with schedule interleaved-zero-bubble");
  }
}

TEST(Expressible, RefusesOverlapThatNoDegreeOfTensorParallelismHas) {
  const auto cluster = fleets().front().cluster;
  FixedChoices beside;
  beside.overlap_tensor = true;
  beside.sequence_parallel = false;
  for (const auto& [framework, lacks] :
       {std::pair(Framework::kMegatron, "exchanges beside products without sequence parallelism"),
        std::pair(Framework::kTorchTitan, "no tensor parallelism without sequence parallelism")}) {
    try {
      planned(cluster, "llama3-8b,context=2048", framework, beside);
      ADD_FAILURE() << framework_name(framework);
    } catch (const Error& error) {
      EXPECT_MENTIONS(std::string(error.what()), lacks);
    }
  }
}

TEST(Expressible, RefusesWhatAFrameworksPrecisionsLack) {
  const auto all = fleets();
  try {
    planned(all.back().cluster, "llama2-7b,layers=8", Framework::kTorchTitan);
    FAIL();
  } catch (const Error& error) {
    EXPECT_MENTIONS(std::string(error.what()), "torchtitan has no fp16, which stands for bf16");
  }
  Job job;
  job.model = resolve_model("llama2-7b,layers=8");
  job.framework = Framework::kMegatron;
  job.global_batch = 48;
  job.precision = Precision::kFp8Hybrid;
  try {
    make_plan(all[1].cluster, job, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_MENTIONS(std::string(error.what()), "no fp8 peak of device");
  }
}

}  // namespace
}  // namespace tombolo::planner
