// The scripts run, with launchers that write down what they are told.
#include "planner/launch/launch.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/json.h"
#include "planner/planner.h"
#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

using testing::make_cluster;
using testing::simple_plan;
using testing::small_model;
using topology::NicKind;

/// A folder with programs that stand in for the launchers.
class LaunchScripts : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "tombolo-launch-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    std::ofstream(folder_ / "cluster.json") << "{}";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void stand_in(const std::string& program, const std::string& script) {
    std::ofstream(folder_ / program) << "#!/bin/sh\n" << script;
    std::filesystem::permissions(folder_ / program, std::filesystem::perms::owner_all);
  }
  /// What the script prints, run as `environment sh script arguments`.
  std::string run(const std::string& script, const std::string& environment, const std::string& arguments) {
    std::ofstream(folder_ / "script") << script;
    const std::string command =
        "cd '" + folder_.string() +
        "'; unset TOMBOLO_CLUSTER TOMBOLO_HOST CUDA_VISIBLE_DEVICES; PATH=\"$PWD:$PATH\"; " + environment +
        " sh ./script " + arguments + " 2>&1";
    FILE* pipe = popen(command.c_str(), "r");
    std::string out;
    char part[4096];
    for (std::size_t got = 0; (got = fread(part, 1, sizeof part, pipe)) > 0;) out.append(part, got);
    status_ = WEXITSTATUS(pclose(pipe));
    return out;
  }
  std::string emit(Launcher launcher, const Plan& plan) const {
    return planner::emit(launcher, plan, cluster_, (folder_ / "cluster.json").string());
  }

  topology::ClusterFile cluster_ =
      make_cluster({{"a", 2, 2, NicKind::kInfiniBand, 1e9}, {"b", 2, 2, NicKind::kRoce, 1e9}}, 1e7);
  std::filesystem::path folder_;
  int status_ = -1;
};

#define EXPECT_MENTIONS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(LaunchScripts, EachLauncherHasAName) {
  for (const char* name : {"megatron", "torchrun", "deepspeed", "slurm", "mpi"})
    EXPECT_EQ(launcher_name(launcher_from_name(name).value()), name);
  EXPECT_FALSE(launcher_from_name("pigeon"));
}

TEST_F(LaunchScripts, TorchrunNumbersTheNodesAsThePlanDoes) {
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
  EXPECT_MENTIONS(out, "devices=1,0 host=b0 plugin=libnccl-net-tombolo.so");
  out = run(script, "NODE_RANK=1", "train.py");
  EXPECT_MENTIONS(out, "--nproc-per-node 1 --node-rank 1");
  EXPECT_MENTIONS(out, "devices= host=a0");
}

TEST_F(LaunchScripts, TorchrunRefusesAnOrderThatReturnsToAHost) {
  const Plan plan = simple_plan(small_model(8), {"a0", "b0", "a0", "b0"}, 2, 2, 4);
  try {
    emit(Launcher::kTorchrun, plan);
    FAIL();
  } catch (const Error& error) {
    EXPECT_MENTIONS(std::string(error.what()), "--order block");
  }
}

TEST_F(LaunchScripts, WithoutTheClusterFileEveryScriptSaysWhatToCopy) {
  stand_in("mpirun", "echo 'mpirun (Open MPI) 4.1.4'\n");
  const Plan plan = simple_plan(small_model(8), {"a0", "b0"}, 2, 1, 4);
  std::filesystem::remove(folder_ / "cluster.json");
  for (const Launcher launcher :
       {Launcher::kMegatron, Launcher::kTorchrun, Launcher::kDeepSpeed, Launcher::kSlurm, Launcher::kMpi}) {
    const std::string out = run(emit(launcher, plan), "NODE_RANK=0", "train.py");
    EXPECT_EQ(status_, 2) << out;
    EXPECT_MENTIONS(out, "cluster.json; copy the plan's cluster file to this node and set TOMBOLO_CLUSTER");
  }
}

TEST_F(LaunchScripts, DeepSpeedGetsHostsDevicesAndItsConfiguration) {
  stand_in("deepspeed",
           "echo \"$@\"; cat \"$2\"; for last; do :; done; cat \"$last\"; echo; echo env; cat "
           "\"$DS_ENV_FILE\"; echo "
           "folder=$(dirname \"$2\")\n");
  Plan plan = simple_plan(small_model(8), {"a0", "a0", "b0", "b0"}, 2, 2, 4);
  plan.job.shard_optimizer = true;
  const std::string out = run(emit(Launcher::kDeepSpeed, plan), "", "train.py");
  EXPECT_EQ(status_, 0) << out;
  EXPECT_MENTIONS(
      out,
      "--include a0:0,1@b0:0,1 --master_addr a0 --master_port 29500 train.py --deepspeed --deepspeed_config");
  EXPECT_MENTIONS(out, "a0 slots=2\nb0 slots=2\n");
  EXPECT_MENTIONS(out, "\"train_batch_size\": ");
  EXPECT_MENTIONS(out, "\"stage\": 1");
  EXPECT_MENTIONS(out, "NCCL_NET=Tombolo");
  EXPECT_MENTIONS(out, "TOMBOLO_CLUSTER=" + (folder_ / "cluster.json").string());
  const auto at = out.find("folder=");
  ASSERT_NE(at, std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(out.substr(at + 7, out.find('\n', at) - at - 7))) << "left behind";
}

TEST_F(LaunchScripts, DeepSpeedNamesWhatItCannotExpress) {
  Plan plan = simple_plan(small_model(8), {"a0", "a0", "b0", "b0"}, 2, 2, 4);
  plan.pipelines = equal_pipelines(plan.job, to_stages({5, 3}));
  EXPECT_MENTIONS(emit(Launcher::kDeepSpeed, plan), "NOT EXPRESSIBLE: layers per stage 5, 3");
  plan.job.schedule = Schedule::kGPipe;
  EXPECT_THROW(emit(Launcher::kDeepSpeed, plan), Error);
}

TEST_F(LaunchScripts, SlurmGetsTheHostOfEachRank) {
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

TEST_F(LaunchScripts, MpiGetsTheHostOfEachRank) {
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
