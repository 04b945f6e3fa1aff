#include "base/error.h"
#include "planner/testing/testing_launch.h"

namespace tombolo::planner {
namespace {

using testing::simple_plan;
using testing::small_model;

using EmitDeepSpeed = testing::LaunchScripts;

TEST_F(EmitDeepSpeed, DeepSpeedGetsHostsDevicesAndItsConfiguration) {
  stand_in("deepspeed",
           "echo \"$@\"; cat \"$2\"; for last; do :; done; cat \"$last\"; echo; echo env; cat "
           "\"$DS_ENV_FILE\"; echo "
           "folder=$(dirname \"$2\")\n");
  Plan plan = simple_plan(small_model(8), {"a0", "a0", "b0", "b0"}, 2, 2, 4);
  plan.job.sharding = Sharding::kOptimizer;
  const std::string out = run(emit(Launcher::kDeepSpeed, plan), "", "train.py");
  EXPECT_EQ(status_, 0) << out;
  EXPECT_MENTIONS(
      out,
      "--include a0:0,1@b0:0,1 --master_addr a0 --master_port 29500 train.py --deepspeed --deepspeed_config");
  EXPECT_MENTIONS(out, "a0 slots=2\nb0 slots=2\n");
  EXPECT_MENTIONS(out, "\"train_batch_size\": ");
  EXPECT_MENTIONS(out, "\"steps_per_print\": 10");
  EXPECT_MENTIONS(out, "\"stage\": 1");
  EXPECT_MENTIONS(out, "NCCL_NET=Tombolo");
  EXPECT_MENTIONS(out, "NCCL_NET_PLUGIN_REF_COUNT=1");
  EXPECT_MENTIONS(out, "TOMBOLO_CLUSTER=" + (folder_ / "cluster.json").string());
  const auto at = out.find("folder=");
  ASSERT_NE(at, std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(out.substr(at + 7, out.find('\n', at) - at - 7))) << "left behind";
}

TEST_F(EmitDeepSpeed, DeepSpeedsStagesAreEqualAndCountedByTheLayersType) {
  Plan plan = simple_plan(small_model(8), {"a0", "a0", "b0", "b0"}, 2, 2, 4);
  EXPECT_MENTIONS(emit(Launcher::kDeepSpeed, plan),
                  "PipelineModule(num_stages=2, partition_method=\"type:LAYER\")");
  EXPECT_MENTIONS(emit(Launcher::kDeepSpeed, plan), "each stage gets 4 of them");
  Plan uneven = plan;
  uneven.pipelines = equal_pipelines(plan.job, to_stages({5, 3}));
  EXPECT_THROW(emit(Launcher::kDeepSpeed, uneven), Error);
  plan.job.schedule = Schedule::kGPipe;
  EXPECT_THROW(emit(Launcher::kDeepSpeed, plan), Error);
}

TEST_F(EmitDeepSpeed, SaysWhatItsModelMustHave) {
  Plan plan = simple_plan(small_model(8), {"a0", "a0", "b0", "b0"}, 2, 2, 4);
  EXPECT_SILENT_ON(emit(Launcher::kDeepSpeed, plan), "Its model must have");
  plan.job.framework = Framework::kDeepSpeed;
  plan.job.model.peculiarities = {Peculiarity::kRelu, Peculiarity::kParallelMlp};
  plan.job.model.window = plan.job.model.context / 2;
  EXPECT_MENTIONS(emit(Launcher::kDeepSpeed, plan),
                  fmt::format("# Its model must have attention to the last {} tokens alone; layers whose MLP "
                              "stands beside attention; MLPs through ReLU.\n",
                              plan.job.model.window));
}

TEST_F(EmitDeepSpeed, DeepSpeedShardsGradientsAndParametersWithoutPipelineModule) {
  Plan plan = simple_plan(small_model(8), {"a0", "a0", "b0", "b0"}, 1, 4, 4);
  plan.job.framework = Framework::kDeepSpeed;
  for (const auto& [sharding, stage] :
       {std::pair(Sharding::kGradients, "\"stage\": 2"), std::pair(Sharding::kParameters, "\"stage\": 3")}) {
    plan.job.sharding = sharding;
    const std::string script = emit(Launcher::kDeepSpeed, plan);
    EXPECT_MENTIONS(script, stage);
    EXPECT_MENTIONS(script, "In the program: the model by itself");
    EXPECT_SILENT_ON(script, "PipelineModule(");
  }
}

}  // namespace
}  // namespace tombolo::planner
