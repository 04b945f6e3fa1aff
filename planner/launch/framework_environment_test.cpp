#include "planner/launch/framework_environment.h"

#include <fmt/format.h>

#include <sstream>

#include "planner/plan/cluster_view.h"
#include "planner/plan/placement.h"
#include "planner/testing/testing_launch.h"

namespace tombolo::planner {
namespace {

constexpr const char* kSetting = "CUDA_DEVICE_MAX_CONNECTIONS";

/// Two clusters of a host each, of GPUs of that name; replicas stay inside a host, pipelines cross.
class FrameworkEnvironment : public testing::LaunchScripts {
 protected:
  void SetUp() override {
    LaunchScripts::SetUp();
    cluster_ = testing::make_cluster(
        {{"a", 1, 4, topology::NicKind::kInfiniBand, 1e9}, {"b", 1, 4, topology::NicKind::kRoce, 1e9}}, 1e7);
    gpus("H100-SXM5-80GB");
  }
  void gpus(const std::string& name) {
    for (auto& host : cluster_.hosts)
      for (auto& device : host.devices) {
        device.kind = topology::DeviceKind::kGpu;
        device.name = name;
      }
  }
  Plan plan_for(Framework framework, int tensor, int context = 1) const {
    Plan plan = testing::simple_plan(testing::small_model(8), {"a0", "a0", "b0", "b0"}, 2, 2, 4);
    plan.job.framework = framework;
    plan.job.context_parallel = context;
    plan.job.tensor = tensor;
    // torchtitan's tensor parallelism divides the sequence too.
    plan.job.sequence_parallel = tensor > 1 && traits(framework).sequence_parallel;
    plan.ranks.clear();
    for (int rank = 0; rank < 4 * tensor; ++rank)
      plan.ranks.push_back({rank < 2 * tensor ? "a0" : "b0", rank % (2 * tensor), rank / (2 * tensor),
                            rank / tensor % 2, rank % tensor});
    for (Pipeline& pipeline : plan.pipelines)
      for (Stage& stage : pipeline.stages) stage.tensor = tensor;
    plan.groups = groups_of(plan, ClusterView(cluster_, "per-peer", {}));
    return plan;
  }
  /// srun, which starts every rank on this machine with all of the environment.
  void stand_in_srun() {
    stand_in("srun",
             "shift 2\nrank=0\n"
             "for host in $(cat \"$SLURM_HOSTFILE\"); do\n"
             "  SLURM_PROCID=$rank SLURM_LOCALID=$((rank % 4)) SLURMD_NODENAME=$host \"$@\" || exit 1\n"
             "  rank=$((rank + 1))\ndone\n");
  }
  /// mpirun, which starts every rank with what -x names and nothing else.
  void stand_in_mpirun() {
    stand_in("mpirun",
             "if [ \"$1\" = --version ]; then echo 'mpirun (Open MPI) 4.1.4'; exit; fi\n"
             "ranks=$2; passed=\n"
             "while [ \"$1\" != sh ]; do\n"
             "  if [ \"$1\" = -x ]; then passed=\"$passed $2=$(printenv \"$2\")\"; fi; shift\ndone\n"
             "rank=0\nwhile [ $rank -lt $ranks ]; do\n"
             "  env -i PATH=\"$PATH\" TMPDIR=\"$TMPDIR\" $passed OMPI_COMM_WORLD_RANK=$rank "
             "OMPI_COMM_WORLD_LOCAL_RANK=$((rank % 4)) \"$@\" || exit 1\n"
             "  rank=$((rank + 1))\ndone\n");
  }
  /// The trainer, which writes down its place, its environment, and the file of networks that it is given.
  void stand_in_trainer() {
    stand_in(
        "trainer",
        "echo \"skipmc=$UB_SKIPMC rank=$RANK connections=$CUDA_DEVICE_MAX_CONNECTIONS net=$NCCL_NET "
        "plugin=$NCCL_NET_PLUGIN\"\n"
        "for word in \"$@\"; do\n"
        "  [ \"$before\" != --nccl-communicator-config-path ] || echo \"file=$(tr -d '\\n' < \"$word\")\"\n"
        "  before=$word\ndone\n");
  }
};

std::size_t times(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_F(FrameworkEnvironment, IsTheSameUnderEveryLauncherOfAFramework) {
  for (const Framework framework : {Framework::kTombolo, Framework::kMegatron, Framework::kNeMo,
                                    Framework::kTorchTitan, Framework::kDeepSpeed}) {
    const Plan plan = plan_for(framework, traits(framework).tensor_parallel ? 2 : 1);
    const bool wants = framework == Framework::kMegatron || framework == Framework::kNeMo;
    std::vector<Launcher> launchers{Launcher::kTorchrun, Launcher::kSlurm, Launcher::kMpi};
    if (framework != Framework::kTombolo) launchers.push_back(*launcher_from_name(framework_name(framework)));
    for (const Launcher launcher : launchers) {
      const std::string script = emit(launcher, plan);
      EXPECT_EQ(times(script, fmt::format("export {}=", kSetting)), wants ? 1U : 0U)
          << framework_name(framework) << " by " << launcher_name(launcher);
      if (!wants) continue;
      EXPECT_MENTIONS(script, "so that an exchange starts before the products that hide it");
    }
  }
}

TEST_F(FrameworkEnvironment, IsOfMegatronWhereRanksShareLayersOrRowsOnGpusBeforeBlackwell) {
  const auto wants = [&](const Plan& plan) {
    return !framework_environment(plan, cluster_, Framework::kMegatron).empty();
  };
  EXPECT_FALSE(wants(plan_for(Framework::kMegatron, 1)));
  EXPECT_TRUE(wants(plan_for(Framework::kMegatron, 2)));
  EXPECT_TRUE(wants(plan_for(Framework::kMegatron, 1, 2)));
  Plan sharded = plan_for(Framework::kMegatron, 2);
  sharded.job.sharding = Sharding::kParameters;
  EXPECT_FALSE(wants(sharded)) << "its FSDP refuses to start with it";
  gpus("B200");
  EXPECT_FALSE(wants(plan_for(Framework::kMegatron, 2)));
  cluster_.hosts.back().devices.front().name = "A100-SXM4-80GB";
  EXPECT_TRUE(wants(plan_for(Framework::kMegatron, 2))) << "one older GPU is enough";
  gpus("of tomorrow");
  EXPECT_TRUE(wants(plan_for(Framework::kMegatron, 2))) << "it may be an old one";
}

TEST_F(FrameworkEnvironment, GoesWithoutMulticastBesideProductsOnGpusThatHaveNone) {
  const auto skips = [&](int tensor, bool overlap, Framework framework = Framework::kMegatron) {
    Plan plan = plan_for(framework, tensor);
    plan.job.overlap_tensor = overlap;
    return framework_environment(plan, cluster_, framework).find("export UB_SKIPMC=\"${UB_SKIPMC:-1}\"\n") !=
           std::string::npos;
  };
  EXPECT_FALSE(skips(2, true)) << "Hopper has multicast";
  gpus("A100-SXM4-80GB");
  EXPECT_TRUE(skips(2, true));
  EXPECT_TRUE(skips(2, true, Framework::kNeMo));
  EXPECT_FALSE(skips(2, true, Framework::kTorchTitan)) << "it has no userbuffers";
  EXPECT_FALSE(skips(2, false));
  EXPECT_FALSE(skips(1, true));
  gpus("H100-NVL-94GB");
  EXPECT_TRUE(skips(2, true)) << "no switch joins them";
  gpus("B200");
  EXPECT_FALSE(skips(2, true));
}

TEST_F(FrameworkEnvironment, ReachesEveryRankUnderSlurmAndMpi) {
  stand_in_srun();
  stand_in_mpirun();
  stand_in_trainer();
  gpus("A100-SXM4-80GB");
  Plan plan = plan_for(Framework::kMegatron, 2);
  plan.job.overlap_tensor = true;
  for (const Launcher launcher : {Launcher::kSlurm, Launcher::kMpi}) {
    const std::string script = emit(launcher, plan);
    std::string out = run(script, "unset CUDA_DEVICE_MAX_CONNECTIONS;", "trainer");
    EXPECT_EQ(status_, 0) << out;
    for (int rank = 0; rank < 8; ++rank)
      EXPECT_MENTIONS(out, fmt::format("rank={} connections=1 net=Tombolo plugin=tombolo\n", rank));
    EXPECT_EQ(times(out, "skipmc=1 "), 8U) << out;
    EXPECT_SILENT_ON(out, "file=");
    out = run(script, "CUDA_DEVICE_MAX_CONNECTIONS=8", "trainer");
    EXPECT_EQ(times(out, "connections=8 "), 8U) << "what the environment says stays: " << out;
    EXPECT_SILENT_ON(run(emit(launcher, plan_for(Framework::kTorchTitan, 2)),
                         "unset CUDA_DEVICE_MAX_CONNECTIONS;", "trainer"),
                     "connections=1");
  }
}

TEST_F(FrameworkEnvironment, GivesEveryRankUnderSlurmAndMpiItsGroupsNetworks) {
  stand_in_srun();
  stand_in_mpirun();
  stand_in_trainer();
  const Plan plan = plan_for(Framework::kMegatron, 1);
  for (const Launcher launcher : {Launcher::kSlurm, Launcher::kMpi}) {
    const std::string out = run(emit(launcher, plan), "TMPDIR=\"$PWD\" NETWORK=mixed", "trainer");
    EXPECT_EQ(status_, 0) << out;
    for (int rank = 0; rank < 4; ++rank)
      EXPECT_MENTIONS(out,
                      fmt::format("rank={} connections= net= plugin=tombolo\nfile=dp:  net_name: IB", rank));
    EXPECT_SILENT_ON(out, "pp:");
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      EXPECT_FALSE(entry.path().filename().string().starts_with("tmp.")) << "left behind " << entry.path();
  }
}

TEST_F(FrameworkEnvironment, EndsARankAsItsProgramEndsUnderSlurm) {
  stand_in("srun", "shift 2\nSLURM_PROCID=0 SLURM_LOCALID=0 SLURMD_NODENAME=a0 exec \"$@\"\n");
  stand_in("trainer", "trap 'exit 9' TERM\nkill -TERM $PPID\nwhile :; do sleep 0.05; done\n");
  run(emit(Launcher::kSlurm, plan_for(Framework::kMegatron, 1)), "NETWORK=mixed", "trainer");
  EXPECT_EQ(status_, 9);
}

}  // namespace
}  // namespace tombolo::planner
