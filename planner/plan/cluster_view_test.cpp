#include "planner/plan/cluster_view.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "planner/planner.h"
#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

using testing::make_cluster;

constexpr double kFast = 4e9, kEthernet = 1e8, kLatency = 1e-4;

topology::ClusterFile linked_clusters() {
  return make_cluster(
      {{"A", 2, 2, topology::NicKind::kInfiniBand, kFast}, {"B", 2, 2, topology::NicKind::kRoce, kFast}},
      kEthernet, kLatency);
}

/// The same, said by fabric instead of by link.
topology::ClusterFile by_fabric(topology::ClusterFile cluster) {
  cluster.links.clear();
  cluster.fabrics = {{"fabric-A", "", "", kFast, kLatency},
                     {"fabric-B", "", "", kFast, kLatency},
                     {"", "", "", kEthernet, kLatency}};
  return cluster;
}

TEST(ClusterView, SeesTheSameInFabricsAsInAFullListOfLinks) {
  const auto listed = linked_clusters(), usual = by_fabric(listed);
  const ClusterView a(listed, "per-peer", {}), b(usual, "per-peer", {});
  for (int from = 0; from < 4; ++from) {
    for (int to = 0; to < 4; ++to) {
      const Path &one = a.path(from, to), &other = b.path(from, to);
      EXPECT_EQ(one.bytes_per_second, other.bytes_per_second) << from << " to " << to;
      EXPECT_EQ(one.latency_seconds, other.latency_seconds) << from << " to " << to;
      EXPECT_EQ(one.kind, other.kind);
    }
    for (int nic : {0, 1}) {
      EXPECT_EQ(a.egress(from, nic), b.egress(from, nic));
      EXPECT_EQ(a.ingress(from, nic), b.ingress(from, nic));
    }
  }
  Job job;
  job.model = testing::small_model(8);
  job.global_batch = 16;
  EXPECT_EQ(make_plan(listed, job, {}).prediction.step_seconds,
            make_plan(usual, job, {}).prediction.step_seconds);
}

TEST(ClusterView, SaysHowToDeclareALinkThatIsMissing) {
  auto cluster = by_fabric(linked_clusters());
  cluster.fabrics.pop_back();
  const ClusterView view(cluster, "per-peer", {});
  EXPECT_EQ(view.path(0, 1).bytes_per_second, kFast);
  try {
    view.path(0, 2);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("no link from A0/eth to B0/eth"), std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("\"fabrics\""), std::string::npos) << error.what();
  }
}

TEST(ClusterView, KnowsWhatSharedLinksAPathCrosses) {
  auto cluster = linked_clusters();
  cluster.shared_links = {{"out of A0", {{"A0", "fast"}, {"A0", "eth"}}, {{"B0", "eth"}}, 5e7},
                          {"A to B", {{"A0", "eth"}, {"A1", "eth"}}, {{"B0", "eth"}, {"B1", "eth"}}, 7e7}};
  const ClusterView view(cluster, "per-peer", {});
  EXPECT_EQ(view.path(0, 2).shared, (std::vector<int>{0, 1}));
  EXPECT_EQ(view.path(0, 2).bytes_per_second, 5e7) << "one transfer alone";
  EXPECT_EQ(view.path(1, 3).shared, (std::vector<int>{1}));
  EXPECT_EQ(view.path(1, 3).bytes_per_second, 7e7);
  EXPECT_TRUE(view.path(2, 0).shared.empty()) << "the other direction";
  EXPECT_EQ(view.path(2, 0).bytes_per_second, kEthernet);
  EXPECT_TRUE(view.path(0, 1).shared.empty()) << "by the fast NICs";
}

TEST(ClusterView, TakesWhatJoinsAHostsDevices) {
  auto cluster = linked_clusters();
  cluster.hosts[0].device_bytes_per_second = 3e11;
  const ClusterView view(cluster, "per-peer", {});
  EXPECT_EQ(view.path(0, 0).bytes_per_second, 3e11);
  EXPECT_TRUE(view.path(0, 0).inside_host);
  EXPECT_EQ(view.path(1, 1).bytes_per_second, 0) << "unknown: free";
}

}  // namespace
}  // namespace tombolo::planner
