#include "base/error.h"
#include "planner/testing/testing_launch.h"

namespace tombolo::planner {
namespace {

using testing::simple_plan;
using testing::small_model;

using EmitTorchrun = testing::LaunchScripts;

TEST_F(EmitTorchrun, TorchrunNumbersTheNodesAsThePlanDoes) {
  stand_in("torchrun",
           "echo \"$@\"; echo devices=$CUDA_VISIBLE_DEVICES host=$TOMBOLO_HOST plugin=$NCCL_NET_PLUGIN\n");
  Plan plan = simple_plan(small_model(8), {"b0", "b0", "a0"}, 3, 1, 4);
  std::swap(plan.ranks[0].device, plan.ranks[1].device);
  const std::string script = emit(Launcher::kTorchrun, plan);
  std::string out = run(script, "NODE_RANK=0", "train.py --lr '1 2'");
  EXPECT_EQ(status_, 0) << out;
  EXPECT_MENTIONS(
      out,
      "--nnodes 2 --nproc-per-node 2 --node-rank 0 --master-addr b0 --master-port 29500 train.py --lr 1 2");
  EXPECT_MENTIONS(out, "devices=1,0 host=b0 plugin=tombolo");
  out = run(script, "NODE_RANK=1", "train.py");
  EXPECT_MENTIONS(out, "--nproc-per-node 1 --node-rank 1");
  EXPECT_MENTIONS(out, "devices= host=a0");
}

TEST_F(EmitTorchrun, TorchrunRefusesAnOrderThatReturnsToAHost) {
  const Plan plan = simple_plan(small_model(8), {"a0", "b0", "a0", "b0"}, 2, 2, 4);
  try {
    emit(Launcher::kTorchrun, plan);
    FAIL();
  } catch (const Error& error) {
    EXPECT_MENTIONS(std::string(error.what()), "--order block");
  }
}

}  // namespace
}  // namespace tombolo::planner
