#include "tools/reports/bandwidth_matrix.h"

#include <gtest/gtest.h>

namespace tombolo::tools {
namespace {

topology::Host host_with(const std::string& name, topology::NicKind kind, const std::string& fabric) {
  topology::Host host;
  host.name = name;
  host.nics.resize(2);
  host.nics[0].name = "fast";
  host.nics[0].kind = kind;
  host.nics[0].fabric = fabric;
  host.nics[0].emulated = true;
  host.nics[1].name = "eth";
  return host;
}

TEST(BandwidthMatrix, HasATablePerKindAndFabricBestFirst) {
  topology::ClusterFile cluster;
  cluster.hosts = {host_with("a0", topology::NicKind::kInfiniBand, "A-ib"),
                   host_with("a1", topology::NicKind::kInfiniBand, "A-ib")};
  cluster.links = {{"a0", "eth", "a1", "eth", 1.25e7, 1e-4, true},
                   {"a1", "eth", "a0", "eth", 2.5e7, 2e-4, true},
                   {"a0", "fast", "a1", "fast", 5e8, 1e-5, true}};
  const std::string text = bandwidth_matrix(cluster);
  const auto fast =
      text.find("infiniband (emulated), fabric A-ib: 4 Gbit/s to 4 Gbit/s, one way in 10 us to 10 us\n");
  const auto slow = text.find("tcp: 100 Mbit/s to 200 Mbit/s, one way in 100 us to 200 us\n");
  ASSERT_NE(fast, std::string::npos) << text;
  ASSERT_NE(slow, std::string::npos) << text;
  EXPECT_LT(fast, slow) << text;
  // Rows send, columns receive; a pair without a link has a dash.
  EXPECT_NE(text.find("a0 eth     -           100 Mbit/s\n"), std::string::npos) << text;
  EXPECT_NE(text.find("a1 eth     200 Mbit/s  -\n"), std::string::npos) << text;
}

TEST(BandwidthMatrix, IsEmptyWithoutLinks) {
  EXPECT_EQ(bandwidth_matrix({}), "");
}

}  // namespace
}  // namespace tombolo::tools
