#include "planner/launch/network_environment.h"

#include <gtest/gtest.h>

#include "planner/plan/cluster_view.h"
#include "planner/plan/placement.h"
#include "planner/testing/testing_launch.h"
#include "planner/testing/testing_names.h"

namespace tombolo::planner {
namespace {

using testing::make_cluster;
using testing::simple_plan;
using testing::small_model;
using topology::NicKind;

/// Two clusters of two hosts; `latency` is one way between any two.
topology::ClusterFile unlike_clusters(double ethernet, double latency) {
  auto cluster =
      make_cluster({{"a", 2, 2, NicKind::kInfiniBand, 2e10}, {"b", 2, 2, NicKind::kRoce, 2e10}}, ethernet);
  for (auto& link : cluster.links)
    if (link.from_host[0] != link.to_host[0]) link.latency_seconds = latency;
  for (auto& host : cluster.hosts) {
    host.nics[0].rdma_device = "mlx5_0";
    host.nics[0].rdma_port = 1;
  }
  return cluster;
}

Plan with_groups(Plan plan, const topology::ClusterFile& cluster) {
  plan.groups = groups_of(plan, ClusterView(cluster, "per-peer", {}));
  return plan;
}

/// A stage in each cluster: replicas stay inside, pipelines cross.
Plan crossing_pipelines(const topology::ClusterFile& cluster) {
  return with_groups(simple_plan(small_model(8), {"a0", "a1", "b0", "b1"}, 2, 2, 4), cluster);
}

TEST(NetworkNeeds, AreThoseOfTheGroupsAndOfTheLongestPath) {
  const auto cluster = unlike_clusters(1.25e9, 0.01);
  const NetworkNeeds needs = network_needs(crossing_pipelines(cluster), cluster);
  EXPECT_FALSE(needs.rdma_everywhere);
  EXPECT_TRUE(needs.data_by_rdma);
  EXPECT_FALSE(needs.pipeline_by_rdma);
  ASSERT_TRUE(needs.long_link);
  EXPECT_DOUBLE_EQ(needs.long_link->bytes_under_way(), 1.25e9 * 0.02);
  EXPECT_EQ(needs.ranks_per_host, 1);
  const Plan inside = with_groups(simple_plan(small_model(8), {"a0", "a1"}, 2, 1, 4), cluster);
  EXPECT_TRUE(network_needs(inside, cluster).rdma_everywhere);
  EXPECT_FALSE(network_needs(inside, cluster).long_link);
}

TEST(NetworkEnvironment, SizesBuffersForTheLongLinkAndSaysWhy) {
  const auto far = unlike_clusters(1.25e9, 0.01);
  const std::string text = network_environment(crossing_pipelines(far), far, true);
  EXPECT_MENTIONS(text, "# From a to b 10 Gbit/s with a round trip of 20 ms keep 25.0 MB under way");
  EXPECT_MENTIONS(text, "export NCCL_BUFFSIZE=\"${NCCL_BUFFSIZE:-33554432}\"  # gradients: ");
  EXPECT_MENTIONS(text, "export NCCL_P2P_NET_CHUNKSIZE=\"${NCCL_P2P_NET_CHUNKSIZE:-2097152}\"");
  EXPECT_MENTIONS(text, "export NCCL_NCHANNELS_PER_NET_PEER=\"${NCCL_NCHANNELS_PER_NET_PEER:-2}\"");
  const auto near = unlike_clusters(1.25e9, 1e-5);
  EXPECT_SILENT_ON(network_environment(crossing_pipelines(near), near, true), "NCCL_BUFFSIZE");
}

TEST(NetworkEnvironment, HasNamesThatNcclAndMegatronKnow) {
  const auto cluster = unlike_clusters(1.25e9, 0.05);
  const Plan plan = crossing_pipelines(cluster);
  const auto nccl = testing::names_of("nccl");
  const std::string text = network_environment(plan, cluster, true);
  for (std::size_t at = text.find("NCCL_"); at != std::string::npos; at = text.find("NCCL_", at + 1)) {
    const std::string name =
        text.substr(at, text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789", at) - at);
    EXPECT_TRUE(nccl.contains(name)) << name;
  }
  const auto groups = testing::names_of("megatron_groups");
  NetworkNeeds needs;
  needs.data_by_rdma = needs.pipeline_by_rdma = needs.experts_by_rdma = true;
  std::istringstream lines(group_networks(needs));
  int named = 0;
  for (std::string line; std::getline(lines, line);)
    if (line.front() != ' ') {
      EXPECT_TRUE(groups.contains(line.substr(0, line.size() - 1))) << line;
      ++named;
    }
  EXPECT_GT(named, 5);
}

TEST(NetworkEnvironment, FrameworksOwnSocketsTakeAnEthernetNicThatAllHostsHave) {
  auto cluster = make_cluster({{"a", 2}}, 1e7);
  const Plan plan = simple_plan(small_model(8), {"a0", "a1"}, 2, 1, 4);
  EXPECT_MENTIONS(network_environment(plan, cluster, false),
                  "NCCL_SOCKET_IFNAME='eth' GLOO_SOCKET_IFNAME='eth'\n");
  cluster.hosts[1].nics[0].name = "eno1";
  cluster.links.clear();
  cluster.fabrics = {{"", "", "", 1e7, 0}};
  EXPECT_MENTIONS(network_environment(plan, cluster, false), "no name is common");
}

class Networks : public testing::LaunchScripts {
 protected:
  void SetUp() override {
    LaunchScripts::SetUp();
    cluster_ = unlike_clusters(1.25e9, 1e-5);
    stand_in(
        "torchrun",
        "echo \"net=$NCCL_NET plugin=$NCCL_NET_PLUGIN hca=$NCCL_IB_HCA\"; echo \"$@\"\n"
        "while [ $# -gt 1 ]; do [ \"$1\" = --nccl-communicator-config-path ] && cat \"$2\"; shift; done\n");
  }
};

TEST_F(Networks, TakeThePluginOrNcclsOwnAsTheUserSays) {
  const std::string script = emit(Launcher::kMegatron, crossing_pipelines(cluster_));
  EXPECT_MENTIONS(run(script, "NODE_RANK=0", "train.py"), "net=Tombolo plugin=tombolo hca=\n");
  EXPECT_EQ(status_, 0);
  const std::string own = run(script, "NETWORK=nccl NODE_RANK=0", "train.py");
  EXPECT_MENTIONS(own, "net=Socket plugin=none hca=\n");
  EXPECT_SILENT_ON(own, "--nccl-communicator-config-path");
  EXPECT_MENTIONS(run(script, "NETWORK=pigeons NODE_RANK=0", "train.py"),
                  "NETWORK is pigeons, expected tombolo, mixed or nccl");
  EXPECT_EQ(status_, 2);
}

TEST_F(Networks, MixByGroupAndLeaveNoFileBehind) {
  const std::string script = emit(Launcher::kMegatron, crossing_pipelines(cluster_));
  const std::string out = run(script, "TMPDIR=\"$PWD\" NETWORK=mixed NODE_RANK=0", "train.py");
  EXPECT_EQ(status_, 0) << out;
  EXPECT_MENTIONS(out, "net= plugin=tombolo hca==mlx5_0:1\n");
  EXPECT_MENTIONS(out, "dp:\n  net_name: IB\n");
  EXPECT_SILENT_ON(out, "pp:\n");
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    EXPECT_FALSE(entry.path().filename().string().starts_with("tmp.")) << entry.path();
}

TEST_F(Networks, PassTheProgramsExitCodeAndSignalsOn) {
  const std::string script = emit(Launcher::kMegatron, crossing_pipelines(cluster_));
  stand_in("torchrun", "exit 7\n");
  run(script, "NODE_RANK=0 NETWORK=mixed", "train.py");
  EXPECT_EQ(status_, 7);
  stand_in("torchrun", "trap 'echo ended; exit 9' TERM\nkill -TERM $PPID\nwhile :; do sleep 0.05; done\n");
  EXPECT_MENTIONS(run(script, "NODE_RANK=0", "train.py"), "ended");
  EXPECT_EQ(status_, 9);
}

TEST_F(Networks, NeedNoClusterFileWithoutThePlugin) {
  const std::string script = emit(Launcher::kMegatron, crossing_pipelines(cluster_));
  std::filesystem::remove(folder_ / "cluster.json");
  run(script, "NODE_RANK=0 NETWORK=nccl", "train.py");
  EXPECT_EQ(status_, 0);
  run(script, "NODE_RANK=0", "train.py");
  EXPECT_EQ(status_, 2);
}

TEST_F(Networks, AreNcclsRdmaWhereThatReachesAll) {
  const Plan inside = with_groups(simple_plan(small_model(8), {"a0", "a1"}, 2, 1, 4), cluster_);
  const std::string script = emit(Launcher::kMegatron, inside);
  EXPECT_MENTIONS(run(script, "NODE_RANK=0 NETWORK=nccl", "train.py"), "net=IB plugin=none hca==mlx5_0:1\n");
  EXPECT_MENTIONS(script, "\nexec torchrun");
  EXPECT_MENTIONS(run(script, "NODE_RANK=0 NETWORK=mixed", "train.py"), "expected tombolo or nccl");
}

}  // namespace
}  // namespace tombolo::planner
