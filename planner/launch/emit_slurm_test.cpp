#include "planner/testing/testing_launch.h"

namespace tombolo::planner {
namespace {

using testing::simple_plan;
using testing::small_model;

using EmitSlurm = testing::LaunchScripts;

TEST_F(EmitSlurm, SlurmGetsTheHostOfEachRank) {
  stand_in("srun",
           "cat \"$SLURM_HOSTFILE\"; echo hostfile=$SLURM_HOSTFILE; echo \"$1 $2\"; shift 2; SLURM_PROCID=2 "
           "SLURM_LOCALID=1 "
           "SLURMD_NODENAME=a0 exec \"$@\"\n");
  Plan plan = simple_plan(small_model(8), {"a0", "b0", "a0", "b0"}, 2, 2, 4);
  plan.ranks[0].device = 1;
  plan.ranks[2].device = 0;
  const std::string script = emit(Launcher::kSlurm, plan);
  EXPECT_MENTIONS(
      script,
      "#SBATCH --nodes=2\n#SBATCH --ntasks=4\n#SBATCH --ntasks-per-node=2\n#SBATCH --nodelist=a0,b0\n");
  const std::string out = run(script, "",
                              "sh -c 'echo rank=$RANK local=$LOCAL_RANK of=$WORLD_SIZE at=$MASTER_ADDR "
                              "devices=$CUDA_VISIBLE_DEVICES'");
  EXPECT_EQ(status_, 0) << out;
  EXPECT_MENTIONS(out, "a0\nb0\na0\nb0\nhostfile=");
  EXPECT_MENTIONS(out, "--distribution=arbitrary --ntasks=4");
  EXPECT_MENTIONS(out, "rank=2 local=1 of=4 at=a0 devices=1,0");
  const auto at = out.find("hostfile=");
  EXPECT_FALSE(std::filesystem::exists(out.substr(at + 9, out.find('\n', at) - at - 9))) << "left behind";
}

}  // namespace
}  // namespace tombolo::planner
