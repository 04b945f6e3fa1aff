#include "planner/simulate/step_network.h"

#include <gtest/gtest.h>

#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

using testing::make_cluster;
using testing::simple_plan;
using testing::small_model;

constexpr double kRate = 100;  // bytes per second, of every link between hosts

/// Three hosts with two devices each, and what transfers between their ranks take.
struct Network {
  explicit Network(topology::ClusterFile file = make_cluster({{"a", 3, 2}}, kRate, 0.25))
      : cluster(std::move(file)), view(cluster, "per-peer", {}) {}

  /// Ranks 0 and 1 are on host 0, 2 and 3 on host 1, 4 and 5 on host 2.
  FluidEngine::Activity send(int from, int to, double bytes, int sharers = 1) {
    return network.add({from, from / 2, sharers}, {to, to / 2, sharers}, bytes);
  }
  double finish() {
    engine.run();
    return engine.finish();
  }

  topology::ClusterFile cluster;
  ClusterView view;
  Plan plan = simple_plan(small_model(6), {"a0", "a0", "a1", "a1", "a2", "a2"}, 6, 1, 4);
  FluidEngine engine;
  StepNetwork network{plan, view, engine};
};

TEST(StepNetwork, TransfersOfAPairOfHostsShareIt) {
  Network network;
  network.send(0, 2, 100);
  network.send(1, 3, 100);
  EXPECT_NEAR(network.finish(), 2, 1e-9);
  const auto flows = network.network.flows();
  ASSERT_EQ(flows.size(), 1u);
  EXPECT_EQ(flows[0].from_host, 0);
  EXPECT_EQ(flows[0].to_host, 1);
  EXPECT_DOUBLE_EQ(flows[0].bytes, 200);
  EXPECT_DOUBLE_EQ(network.network.longest_latency(), 0.25);
}

TEST(StepNetwork, BothDirectionsAreIndependent) {
  Network network;
  network.send(0, 2, 100);
  network.send(2, 0, 100);
  EXPECT_NEAR(network.finish(), 1, 1e-9);
  EXPECT_EQ(network.network.flows().size(), 2u);
}

TEST(StepNetwork, TransfersThroughOneNicShareItInEachDirection) {
  {
    Network out;
    out.send(0, 2, 100);
    out.send(0, 4, 100);
    EXPECT_NEAR(out.finish(), 2, 1e-9);
  }
  Network in;
  in.send(2, 0, 100);
  in.send(4, 0, 100);
  EXPECT_NEAR(in.finish(), 2, 1e-9);
}

TEST(StepNetwork, ASharedLinkIsSharedByAllThatCrossIt) {
  auto cluster = make_cluster({{"a", 3, 2}}, kRate);
  cluster.shared_links.push_back({});
  cluster.shared_links[0].name = "cable";
  cluster.shared_links[0].from = {{"a0", "eth"}, {"a1", "eth"}};
  cluster.shared_links[0].to = {{"a2", "eth"}};
  cluster.shared_links[0].bytes_per_second = kRate / 2;
  Network network(cluster);
  network.send(0, 4, 100);
  EXPECT_NEAR(network.finish(), 2, 1e-9) << "a single transfer gets no more than the cable";
  Network two(cluster);
  two.send(0, 4, 100);
  two.send(2, 4, 100);
  EXPECT_NEAR(two.finish(), 4, 1e-9);
}

TEST(StepNetwork, ProcessorsOfAHostShareOneBus) {
  auto cluster = make_cluster({{"a", 3, 2}}, kRate);
  {
    Network free(cluster);
    free.send(0, 1, 1e9);
    EXPECT_EQ(free.finish(), 0) << "the cluster file does not say what the host attains inside";
  }
  cluster.hosts[0].device_bytes_per_second = kRate;
  Network network(cluster);
  network.send(0, 1, 100);
  network.send(1, 0, 100);
  EXPECT_NEAR(network.finish(), 2, 1e-9);
  EXPECT_TRUE(network.network.flows().empty()) << "nothing leaves the host";
}

TEST(StepNetwork, GpusOfAHostHavePortsOfTheirOwn) {
  auto cluster = make_cluster({{"a", 3, 2}}, kRate);
  cluster.hosts[0].device_bytes_per_second = kRate;
  for (auto& device : cluster.hosts[0].devices) device.kind = topology::DeviceKind::kGpu;
  {
    Network network(cluster);
    network.send(0, 1, 100);
    network.send(1, 0, 100);
    EXPECT_NEAR(network.finish(), 1, 1e-9);
  }
  {
    Network network(cluster);
    network.send(0, 1, 100);
    network.send(0, 1, 100);
    EXPECT_NEAR(network.finish(), 2, 1e-9) << "one way out";
  }
  Network network(cluster);
  network.send(0, 1, 100, 2);
  EXPECT_NEAR(network.finish(), 0.5, 1e-9) << "ranks that share a slot send together";
}

}  // namespace
}  // namespace tombolo::planner
