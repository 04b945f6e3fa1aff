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
  TransferActivities send(int from, int to, double bytes, int sharers = 1) {
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
  EXPECT_DOUBLE_EQ(network.network.longest_latencies().all, 0.25);
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

/// Two hosts of four GPUs with as many NICs each, of kRate.
struct RailNetwork {
  static topology::ClusterFile file(int nics) {
    topology::ClusterFile cluster = make_cluster({{"a", 2, 4}}, 0);
    for (topology::Host& host : cluster.hosts) {
      host.nics.resize(1);
      for (int i = 1; i < nics; ++i) {
        host.nics.push_back(host.nics.front());
        host.nics.back().name += std::to_string(i);
      }
    }
    cluster.fabrics = {{"", "", "", kRate, 0}};
    return cluster;
  }
  /// `tensor` ranks share a slot; every slot is a replica's only one.
  RailNetwork(int tensor, int nics, Framework framework = Framework::kMegatron, double uplink = 0)
      : cluster(file(nics)), sharers(tensor) {
    plan = simple_plan(small_model(4), {"a0", "a0", "a0", "a0", "a1", "a1", "a1", "a1"}, 1, 8 / tensor, 8);
    plan.job.framework = framework;
    plan.job.tensor = tensor;
    for (Pipeline& pipeline : plan.pipelines) pipeline.stages.front().tensor = tensor;
    for (int rank = 0; rank < 8; ++rank)
      plan.ranks[static_cast<std::size_t>(rank)] = {rank < 4 ? "a0" : "a1", rank % 4, 0, rank / tensor,
                                                    rank % tensor};
    if (uplink > 0) {
      topology::SharedLink link{"uplink", {}, {}, uplink};
      for (const topology::Nic& nic : cluster.hosts[0].nics) link.from.push_back({"a0", nic.name});
      for (const topology::Nic& nic : cluster.hosts[1].nics) link.to.push_back({"a1", nic.name});
      cluster.shared_links.push_back(link);
    }
  }
  struct Running {
    explicit Running(RailNetwork& all)
        : view(all.cluster, "per-peer", {}), network(all.plan, view, engine), sharers(all.sharers) {}
    void send(int from, int to, double bytes) {
      network.add({from, from / 4, sharers, from}, {to, to / 4, sharers, to}, bytes);
    }
    double finish() {
      engine.run();
      return engine.finish();
    }
    ClusterView view;
    FluidEngine engine;
    StepNetwork network;
    int sharers;
  };
  topology::ClusterFile cluster;
  int sharers;
  Plan plan;
};

TEST(StepNetworkRails, EachDeviceSendsThroughItsOwnNic) {
  RailNetwork rails(1, 4);
  RailNetwork::Running run(rails);
  for (const int rank : {0, 1, 2, 3}) run.send(rank, 4 + rank, 100);
  EXPECT_NEAR(run.finish(), 1, 1e-9) << "four at once, as if each were alone";
  EXPECT_EQ(run.network.flows().size(), 4u);
}

TEST(StepNetworkRails, TwoDevicesShareANicWhereThereAreHalfAsMany) {
  RailNetwork rails(1, 2);
  RailNetwork::Running run(rails);
  for (const int rank : {0, 1, 2, 3}) run.send(rank, 4 + rank, 100);
  EXPECT_NEAR(run.finish(), 2, 1e-9);
}

TEST(StepNetworkRails, TheRanksOfASlotSendThroughAllTheirNics) {
  RailNetwork rails(2, 4);
  RailNetwork::Running run(rails);
  run.send(0, 4, 200);
  run.send(2, 6, 200);
  EXPECT_NEAR(run.finish(), 1, 1e-9);
  double bytes = 0;
  const auto flows = run.network.flows();
  EXPECT_EQ(flows.size(), 4u);
  for (const Flow& flow : flows) {
    EXPECT_EQ(flow.from_nic, flow.to_nic) << "rails are kept";
    EXPECT_DOUBLE_EQ(flow.bytes, 100);
    bytes += flow.bytes;
  }
  EXPECT_DOUBLE_EQ(bytes, 400);
}

TEST(StepNetworkRails, AGroupSendsThroughTheNicsOfAllItsMembers) {
  RailNetwork rails(1, 4);
  RailNetwork::Running run(rails);
  const int here = run.network.senders({0, 1, 2, 3}), there = run.network.senders({4, 5, 6, 7});
  EXPECT_NE(here, there);
  EXPECT_EQ(here, run.network.senders({0, 1, 2, 3}));
  run.network.add({3, 0, 1, here}, {4, 1, 1, there}, 400);
  EXPECT_NEAR(run.finish(), 1, 1e-9);
}

TEST(StepNetworkRails, TheBundledTrainerTakesTheFirstPairOfNics) {
  RailNetwork rails(1, 4, Framework::kTombolo);
  RailNetwork::Running run(rails);
  for (const int rank : {0, 1, 2, 3}) run.send(rank, 4 + rank, 100);
  EXPECT_NEAR(run.finish(), 4, 1e-9);
  EXPECT_EQ(run.network.flows().size(), 1u);
}

TEST(StepNetworkRails, ALinkBehindAllNicsIsShared) {
  RailNetwork rails(1, 4, Framework::kMegatron, 1.5 * kRate);
  RailNetwork::Running run(rails);
  for (const int rank : {0, 1, 2}) run.send(rank, 4 + rank, 100);
  EXPECT_NEAR(run.finish(), 2, 1e-9);
  // and where one transfer goes over all of them
  RailNetwork whole(4, 4, Framework::kMegatron, 1.5 * kRate);
  RailNetwork::Running one(whole);
  one.send(0, 4, 300);
  EXPECT_NEAR(one.finish(), 2, 1e-9);
}

/// The seconds of a transfer to a near host and one to a far host, from a NIC of which the cluster file says
/// nothing.
double from_an_unknown_nic(bool far_first) {
  topology::ClusterFile cluster = make_cluster({{"a", 3, 2}}, kRate);
  for (topology::Host& host : cluster.hosts) {
    host.nics.push_back(host.nics.front());
    host.nics.back().name += "1";
  }
  for (topology::Link& link : cluster.links)
    if (link.from_host == "a2" || link.to_host == "a2") link.bytes_per_second = kRate / 10;
  Plan plan = simple_plan(small_model(6), {"a0", "a0", "a1", "a1", "a2", "a2"}, 6, 1, 4);
  plan.job.framework = Framework::kMegatron;
  const ClusterView view(cluster, "per-peer", {});
  FluidEngine engine;
  StepNetwork network(plan, view, engine);
  for (const bool far : {far_first, !far_first})
    network.add({1, 0, 1, 1}, far ? TransferEnd{5, 2, 1, 5} : TransferEnd{3, 1, 1, 3}, far ? 10 : 90);
  engine.run();
  return engine.finish();
}

TEST(StepNetworkRails, ANicOfWhichNothingIsKnownIsAsFastWhateverItCarriesFirst) {
  EXPECT_NEAR(from_an_unknown_nic(false), 1, 1e-9);
  EXPECT_NEAR(from_an_unknown_nic(true), 1, 1e-9);
}

}  // namespace
}  // namespace tombolo::planner
