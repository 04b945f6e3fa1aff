#include "planner/testing/testing_launch.h"

namespace tombolo::planner {
namespace {

using testing::simple_plan;
using testing::small_model;

using EmitMpi = testing::LaunchScripts;

TEST_F(EmitMpi, MpiGetsTheHostOfEachRank) {
  stand_in("mpirun",
           "if [ \"$1\" = --version ]; then echo 'mpirun (Open MPI) 4.1.4'; exit; fi\n"
           "cat \"$4\"; echo \"$@\"; while [ \"$1\" != sh ]; do shift; done\n"
           "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_LOCAL_RANK=1 exec \"$@\"\n");
  const Plan plan = simple_plan(small_model(8), {"a0", "b0", "a0", "b0"}, 2, 2, 4);
  const std::string script = emit(Launcher::kMpi, plan);
  const std::string out =
      run(script, "MPIRUN_FLAGS=--oversubscribe", "sh -c 'echo rank=$RANK local=$LOCAL_RANK of=$WORLD_SIZE'");
  EXPECT_EQ(status_, 0) << out;
  EXPECT_MENTIONS(out, "a0\nb0\na0\nb0\n");
  EXPECT_MENTIONS(out, "-np 4 --hostfile ");
  EXPECT_MENTIONS(out, "--map-by seq");
  EXPECT_MENTIONS(out, "-x NCCL_NET_PLUGIN");
  EXPECT_MENTIONS(out, "-x TOMBOLO_CLUSTER");
  EXPECT_MENTIONS(out, "--oversubscribe");
  EXPECT_MENTIONS(out, "rank=3 local=1 of=4");
  stand_in("mpirun", "echo 'HYDRA build details'\n");
  EXPECT_MENTIONS(run(script, "", "true"), "mpirun is not Open MPI");
  EXPECT_EQ(status_, 2);
}

}  // namespace
}  // namespace tombolo::planner
