#include "planner/launch/launch_nodes.h"

#include <gtest/gtest.h>

#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

using testing::make_cluster;
using testing::simple_plan;
using testing::small_model;

/// Two stages of two replicas; launcher rank r is stage r / 2, replica r % 2.
Plan plan_on(const std::vector<std::string>& hosts) {
  return simple_plan(small_model(8), hosts, 2, 2, 4);
}

std::vector<std::string> hosts_in(const std::vector<Node>& nodes) {
  std::vector<std::string> hosts;
  for (const Node& node : nodes) hosts.push_back(node.host);
  return hosts;
}

TEST(LaunchNodes, RanksAreNumberedAsTheFrameworkDoes) {
  Plan plan = plan_on({"a0", "b0", "a0", "b0"});
  std::swap(plan.ranks[0], plan.ranks[3]);  // stage 1 replica 1 first
  const auto numbers = [&](Numbering numbering) {
    std::vector<std::pair<int, int>> order;
    for (const RankPlacement* place : numbered(plan, numbering))
      order.emplace_back(place->stage, place->replica);
    return order;
  };
  using Order = std::vector<std::pair<int, int>>;
  EXPECT_EQ(numbers(Numbering::kPlan), (Order{{1, 1}, {0, 1}, {1, 0}, {0, 0}}));
  EXPECT_EQ(numbers(Numbering::kStagesOutermost), (Order{{0, 0}, {0, 1}, {1, 0}, {1, 1}}));
  EXPECT_EQ(numbers(Numbering::kReplicasOutermost), (Order{{0, 0}, {1, 0}, {0, 1}, {1, 1}}));
}

TEST(LaunchNodes, ANodesRanksMustBeInARow) {
  const Plan plan = plan_on({"a0", "b0", "a0", "b0"});
  EXPECT_TRUE(nodes_of(plan, Numbering::kStagesOutermost).empty());
  EXPECT_EQ(hosts_in(nodes_of(plan, Numbering::kReplicasOutermost)), (std::vector<std::string>{"a0", "b0"}));
  EXPECT_EQ(hosts_in(nodes_by_host(numbered(plan, Numbering::kPlan))), (std::vector<std::string>{"a0", "b0"}))
      << "in a row or not";
  EXPECT_EQ(nodes_by_host(numbered(plan, Numbering::kPlan))[0].devices, (std::vector<int>{0, 1}));
}

TEST(LaunchNodes, NodesAreComparedInSize) {
  EXPECT_FALSE(equally_large(nodes_by_host(numbered(plan_on({"c0", "b0", "a0", "c0"}), Numbering::kPlan))));
  EXPECT_TRUE(equally_large(nodes_by_host(numbered(plan_on({"a0", "b0", "a0", "b0"}), Numbering::kPlan))));
}

TEST(LaunchNodes, QuotesForTheShell) {
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quoted("$HOME `ls`"), "'$HOME `ls`'");
  EXPECT_EQ(in_single_quotes("plain"), "plain");
}

TEST(LaunchNodes, DevicesAreRenumberedOnlyWhereLaunchersWouldBeWrong) {
  const std::vector<Node> nodes = {{"a0", {0, 1}}, {"b's", {1, 0}}};
  EXPECT_EQ(visible_devices({nodes[0]}, "$NODE_RANK", false), "");
  EXPECT_EQ(visible_devices(nodes, "$NODE_RANK", false),
            "case \"$NODE_RANK\" in\n  1) export CUDA_VISIBLE_DEVICES=1,0 ;;\nesac\n");
  EXPECT_EQ(visible_devices(nodes, "$(uname -n)", true),
            "case \"$(uname -n)\" in\n  'b'\\''s') export CUDA_VISIBLE_DEVICES=1,0 ;;\nesac\n");
}

TEST(LaunchNodes, NodesMayHaveDifferentNumbersOfProcesses) {
  EXPECT_EQ(processes_of_node({{"a0", {0, 1}}, {"b0", {0, 1}}}), "PROCESSES=2\n");
  EXPECT_EQ(processes_of_node({{"a0", {0, 1}}, {"b0", {0}}}),
            "case \"$NODE_RANK\" in\n  0) PROCESSES=2 ;;\n  1) PROCESSES=1 ;;\nesac\n");
}

TEST(LaunchNodes, TheMasterIsReachedOverEthernet) {
  auto cluster = make_cluster({{"a", 2, 1, topology::NicKind::kInfiniBand, 1e9}}, 1e7);
  EXPECT_EQ(master_address("a0", cluster), "a0") << "no address is known";
  cluster.hosts[0].nics[0].addresses = {"10.1.0.1"};  // InfiniBand
  cluster.hosts[0].nics[1].addresses = {"192.168.0.1"};
  EXPECT_EQ(master_address("a0", cluster), "192.168.0.1");
  EXPECT_EQ(master_address("elsewhere", cluster), "elsewhere");
}

}  // namespace
}  // namespace tombolo::planner
