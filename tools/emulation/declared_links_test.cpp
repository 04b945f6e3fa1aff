// Emulated links as a cluster file says them.
#include "tools/emulation/declared_links.h"

#include <gtest/gtest.h>

#include "tools/emulation/emulation.h"

namespace tombolo::emulation {
namespace {

/// Clusters of one host each around a switch, and what the emulation would say of them.
Spec star() {
  Spec spec;
  spec.name = "star";
  for (const char* const name : {"A", "B", "C"})
    spec.hosts.push_back(
        {std::string(name) + "0", name, 1, {{"eth0", topology::NicKind::kTcp, "", name, 1e10, false}}});
  spec.links = {{"A", "core", 1e8, std::chrono::milliseconds(4)}, {"B", "core", 2e8}, {"core", "C", 4e8}};
  spec.links[1].bits_per_second_back = 5e7;
  return spec;
}

topology::ClusterFile hosts_of(const Spec& spec) {
  topology::ClusterFile cluster;
  for (const HostSpec& host : spec.hosts) {
    topology::Host made;
    made.name = host.name;
    made.cluster = host.cluster;
    topology::Nic nic;
    nic.name = host.nics.front().name;
    nic.addresses = {"10.0.0." + std::to_string(cluster.hosts.size() + 1)};
    nic.rate_bits_per_second = 10'000'000'000;
    made.nics.push_back(nic);
    made.devices.emplace_back();
    made.devices.back().name = "cpu";
    cluster.hosts.push_back(made);
  }
  return cluster;
}

TEST(DeclaredLinks, AreSharedByWhatIsOnTheirTwoSides) {
  const Spec spec = star();
  const topology::ClusterFile file = with_declared_links(spec, hosts_of(spec));
  ASSERT_EQ(file.shared_links.size(), 6U);
  EXPECT_EQ(file.shared_links[0].name, "A to core");
  EXPECT_DOUBLE_EQ(file.shared_links[0].bytes_per_second, 1e8 / 8);
  EXPECT_TRUE(file.shared_links[0].carries("A0", "eth0", "C0", "eth0"));
  EXPECT_FALSE(file.shared_links[0].carries("C0", "eth0", "A0", "eth0"));
  EXPECT_FALSE(file.shared_links[0].carries("B0", "eth0", "C0", "eth0"));
  EXPECT_DOUBLE_EQ(file.shared_links[3].bytes_per_second, 5e7 / 8) << "a rate of its own for the way back";
  EXPECT_TRUE(file.shared_links[4].carries("A0", "eth0", "C0", "eth0")) << file.shared_links[4].name;
  EXPECT_NO_THROW(topology::ClusterFile::parse(JsonDocument::parse(file.to_json().dump(), "links.json")));
}

TEST(DeclaredLinks, GiveAPairTheSlowestRateAndAllLatencies) {
  const Spec spec = star();
  const topology::ClusterFile file = with_declared_links(spec, hosts_of(spec));
  const auto link = [&](const std::string& from, const std::string& to) {
    for (const topology::Link& one : file.links)
      if (one.from_host == from && one.to_host == to) return one;
    return topology::Link{};
  };
  EXPECT_DOUBLE_EQ(link("A0", "C0").bytes_per_second, 1e8 / 8);
  EXPECT_DOUBLE_EQ(link("A0", "C0").latency_seconds, 2e-3);
  EXPECT_DOUBLE_EQ(link("C0", "B0").bytes_per_second, 5e7 / 8);
  EXPECT_DOUBLE_EQ(link("B0", "C0").bytes_per_second, 2e8 / 8);
  EXPECT_DOUBLE_EQ(link("B0", "C0").latency_seconds, 0);
}

}  // namespace
}  // namespace tombolo::emulation
