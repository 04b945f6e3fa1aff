#include "planner/plan/rails.h"

#include <gtest/gtest.h>

#include "planner/plan/cluster_view.h"
#include "planner/testing/testing.h"
#include "topology/files/fleet.h"

namespace tombolo::planner {
namespace {

using Nics = std::vector<int>;

/// A host with so many devices and NICs of which nothing else is known.
topology::Host host_of(int devices, int nics) {
  topology::Host host;
  host.devices.resize(static_cast<std::size_t>(devices));
  host.nics.resize(static_cast<std::size_t>(nics));
  return host;
}

TEST(NicsOfDevice, WithoutPlacesDevicesDivideTheNicsInOrder) {
  const topology::Host even = host_of(8, 8), few = host_of(8, 4), many = host_of(2, 4), odd = host_of(2, 3);
  for (int device = 0; device < 8; ++device) {
    EXPECT_EQ(nics_of_devices(even, {0, 1, 2, 3, 4, 5, 6, 7})[static_cast<std::size_t>(device)],
              Nics{device});
    EXPECT_EQ(nics_of_devices(few, {0, 1, 2, 3})[static_cast<std::size_t>(device)], Nics{device / 2});
  }
  EXPECT_EQ(nics_of_devices(many, {0, 1, 2, 3})[static_cast<std::size_t>(0)], (Nics{0, 1}));
  EXPECT_EQ(nics_of_devices(many, {0, 1, 2, 3})[static_cast<std::size_t>(1)], (Nics{2, 3}));
  EXPECT_EQ(nics_of_devices(odd, {0, 1, 2})[static_cast<std::size_t>(0)], Nics{0});
  EXPECT_EQ(nics_of_devices(odd, {0, 1, 2})[static_cast<std::size_t>(1)], (Nics{1, 2}));
  EXPECT_EQ(nics_of_devices(even, {3})[static_cast<std::size_t>(5)], Nics{3}) << "the only one";
  EXPECT_EQ(nics_of_devices(even, {1, 2})[static_cast<std::size_t>(7)], Nics{2})
      << "of those that routing takes";
}

TEST(NicsOfDevice, TheNearestOnThePciBusGoesBeforeTheOrder) {
  topology::Host host = host_of(2, 2);
  const auto behind = [](int bridge, const char* device) {
    return "/sys/devices/pci0000:0" + std::to_string(bridge) + "/0000:0" + std::to_string(bridge) +
           ":00.0/0000:1" + std::to_string(bridge) + ":" + device;
  };
  host.devices[0].pci_path = behind(2, "00.0");
  host.devices[1].pci_path = behind(1, "00.0");
  host.nics[0].pci_path = behind(1, "01.0");
  host.nics[1].pci_path = behind(2, "01.0");
  EXPECT_EQ(nics_of_devices(host, {0, 1})[static_cast<std::size_t>(0)], Nics{1});
  EXPECT_EQ(nics_of_devices(host, {0, 1})[static_cast<std::size_t>(1)], Nics{0});
}

TEST(NicsOfDevice, TheNumaNodeCountsWherePlacesAreUnknown) {
  topology::Host host = host_of(4, 4);
  for (const int i : {0, 1, 2, 3}) {
    host.devices[static_cast<std::size_t>(i)].numa_node = i / 2;
    host.nics[static_cast<std::size_t>(i)].numa_node = 1 - i / 2;
  }
  EXPECT_EQ(nics_of_devices(host, {0, 1, 2, 3})[static_cast<std::size_t>(0)], Nics{2})
      << "of the two on node 0, the first";
  EXPECT_EQ(nics_of_devices(host, {0, 1, 2, 3})[static_cast<std::size_t>(1)], Nics{3});
  EXPECT_EQ(nics_of_devices(host, {0, 1, 2, 3})[static_cast<std::size_t>(2)], Nics{0});
  EXPECT_EQ(nics_of_devices(host, {0, 1, 2, 3})[static_cast<std::size_t>(3)], Nics{1});
}

TEST(ClusterView, SeesTheRailsOfHostsAndWhatDevicesAttainTogether) {
  const auto library = topology::Library::load();
  topology::ClusterFile cluster = topology::expand_fleet(
      JsonDocument::parse(
          R"({"tombolo_fleet": 1, "clusters": [{"name": "A", "hosts": 2, "devices": {"name": "H100-SXM5-80GB",
              "count": 8}, "nics": [{"name": "Ethernet 25G"}, {"name": "ConnectX-7 NDR", "count": 8}]}]})",
          "fleet"),
      library);
  const ClusterView view(cluster, "per-peer", {});
  const Path& path = view.path(0, 1);
  ASSERT_NE(path.from_nics, nullptr);
  EXPECT_EQ(path.from_nics->size(), 8u);
  EXPECT_EQ(path.to_nics->size(), 8u);
  EXPECT_EQ(view.together(0, 1, 8, 8, NicUse::kFirst), path.bytes_per_second);
  EXPECT_EQ(view.together(0, 1, 8, 8, NicUse::kNearest), 8 * path.bytes_per_second);
  EXPECT_EQ(view.together(0, 1, 2, 8, NicUse::kNearest), 2 * path.bytes_per_second);
  // A switch between the hosts that carries less than all of them.
  topology::SharedLink uplink{"uplink", {}, {}, 3 * path.bytes_per_second};
  for (const topology::Nic& nic : cluster.hosts[0].nics) uplink.from.push_back({"A0", nic.name});
  for (const topology::Nic& nic : cluster.hosts[1].nics) uplink.to.push_back({"A1", nic.name});
  cluster.shared_links.push_back(uplink);
  const ClusterView shared(cluster, "per-peer", {});
  EXPECT_EQ(shared.together(0, 1, 8, 8, NicUse::kNearest), uplink.bytes_per_second);
}

}  // namespace
}  // namespace tombolo::planner
