// What /sys says of RDMA ports. How they join with interfaces: topology/judge; whole machines:
// topology/detect_test.cpp; what libibverbs adds: verbs_library_test.cpp.
#include "topology/system/rdma.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "topology/testing/recorded_tree.h"

namespace tombolo::topology {
namespace {

using PortFiles = std::map<std::string, std::string>;

/// The only port of a tree with one device.
RdmaPort port_with(const PortFiles& files, const std::string& driver = "mlx5_core") {
  RecordedTree tree;
  tree.rdma("dev0", tree.pci("0000:18:00.0", driver), 1, files);
  const auto ports = read_rdma_ports(SysTree(tree.root()), false);
  if (ports.size() == 1) return ports[0];
  ADD_FAILURE() << ports.size() << " ports";
  return {};
}

TEST(RdmaPortFacts, HaveTheRateThatTheKernelWords) {
  const auto rate = [](const char* text) { return port_with({{"rate", text}}).nic.rate_bits_per_second; };
  EXPECT_EQ(rate("400 Gb/sec (4X NDR)"), 400'000'000'000U);
  EXPECT_EQ(rate("2.5 Gb/sec (1X SDR)"), 2'500'000'000U);
  for (const char* none : {"nan Gb/sec", "inf Gb/sec", "-100 Gb/sec", "0 Gb/sec", "100000 Gb/sec",
                           "200 GB/sec", "200", "", "Gb/sec"})
    EXPECT_EQ(rate(none), 0U) << none;
}

TEST(RdmaPortFacts, HaveTheGidsThatAreInUseInTheOrderOfTheirNumbers) {
  const RdmaPort port = port_with({{"link_layer", "Ethernet"},
                                   {"gids/10", "fe80:0000:0000:0000:b859:9f03:00c3:ab61"},
                                   {"gid_attrs/types/10", "RoCE v2"},
                                   {"gid_attrs/ndevs/10", "ens3.7"},
                                   {"gids/2", "fe80:0000:0000:0000:b859:9f03:00c3:ab60"},
                                   {"gid_attrs/types/2", "Surprise"},
                                   {"gids/3", "fe80:0000:0000:0000:0000:0000:0000:0000"},
                                   {"gids/4", "fe80::1"},
                                   {"gids/x", "fe80:0000:0000:0000:b859:9f03:00c3:ab62"},
                                   {"gids/70000", "fe80:0000:0000:0000:b859:9f03:00c3:ab63"}});
  std::string found;
  for (const Gid& gid : port.nic.gids) found += fmt::format("{} {}; ", gid.index, gid.type);
  EXPECT_EQ(found, "0 IB/RoCE v1; 2 IB/RoCE v1; 10 RoCE v2; ")
      << "an empty slot, one with a prefix alone and odd entries are no GIDs";
  EXPECT_EQ(port.interface_of_gid, (std::map<int, std::string>{{10, "ens3.7"}}));
  EXPECT_TRUE(port.nic.roce_v1 && port.nic.roce_v2);
}

TEST(RdmaPortFacts, SayWhichFabricTheyAreOn) {
  EXPECT_EQ(port_with({}).nic.fabric, "infiniband-fe80:0000:0000:0000");
  EXPECT_EQ(port_with({{"link_layer", "Ethernet"}}).nic.fabric, "roce");
  EXPECT_EQ(port_with({{"node_type", "4: RNIC"}, {"link_layer", "Ethernet"}}).nic.fabric, "iwarp");
  const RdmaPort bare = port_with({{"gids/0", "0000:0000:0000:0000:0000:0000:0000:0000"}});
  EXPECT_EQ(bare.nic.fabric, "infiniband");
  EXPECT_NE(bare.problem.find("its RDMA port has no GID"), std::string::npos) << bare.problem;
}

TEST(RdmaPortFacts, OfForeignDevicesHaveNoFabricAndSayWhatTheyAre) {
  const auto expect = [](const RdmaPort& port, std::string_view part) {
    EXPECT_EQ(port.nic.fabric, "");
    EXPECT_NE(port.problem.find(part), std::string::npos) << port.problem;
  };
  expect(port_with({}, "efa"), "AWS's EFA");
  expect(port_with({}, "usnic_verbs"), "Cisco's usNIC");
  expect(port_with({{"node_type", "6: usNIC UDP"}}), "an RDMA device of type \"usNIC UDP\"");
  expect(port_with({{"link_layer", "Unspecified"}}), "its link layer \"Unspecified\"");
  EXPECT_EQ(port_with({}, "mana").nic.kind, NicKind::kRoce) << "which once claimed to be InfiniBand";
}

TEST(RdmaPortFacts, SayWhatKeepsThePortDown) {
  struct Case {
    const char *state, *physical;
    NicState found;
    const char* part;
  };
  for (const Case& one :
       {Case{"4: ACTIVE", "5: LinkUp", NicState::kUp, ""},
        Case{"3: ARMED", "5: LinkUp", NicState::kDown, "in state ARMED: no subnet manager"},
        Case{"1: DOWN", "3: Disabled", NicState::kDown, "disabled in the device"},
        Case{"1: DOWN", "", NicState::kDown, "the port is DOWN; check the cable"},
        Case{"1: DOWN", "2: Polling", NicState::kDown, "the port is DOWN (physically Polling)"},
        Case{"", "", NicState::kUnknown, "the port is in no known state"}}) {
    const RdmaPort port = port_with({{"state", one.state}, {"phys_state", one.physical}});
    EXPECT_EQ(port.nic.state, one.found) << one.state;
    EXPECT_NE(port.problem.find(one.part), std::string::npos) << port.problem;
    EXPECT_EQ(port.problem.empty(), *one.part == '\0') << port.problem;
  }
}

TEST(RdmaPortFacts, OfOneFunctionHaveTheInterfaceOfTheirNumber) {
  for (const char* field : {"dev_port", "dev_id"}) {
    RecordedTree tree;
    const auto pci = tree.pci("0000:3b:00.0", "mlx4_core");
    tree.interface("first", pci);
    tree.interface("second", pci, {{field, field == std::string("dev_id") ? "0x1" : "1"}});
    for (const int port : {1, 2}) tree.rdma("mlx4_0", pci, port);
    const auto ports = read_rdma_ports(SysTree(tree.root()), false);
    ASSERT_EQ(ports.size(), 2U);
    EXPECT_EQ(ports[0].nic.name, "mlx4_0/1");
    EXPECT_EQ(ports[0].interface, "first") << field;
    EXPECT_EQ(ports[1].nic.rdma_port, 2);
    EXPECT_EQ(ports[1].interface, "second") << field;
  }
}

TEST(RdmaPortFacts, OfIwarpHaveTheInterfaceWhoseHardwareAddressTheirGidIs) {
  RecordedTree tree;
  const auto net = tree.pci("0000:3b:00.4", "cxgb4");
  tree.interface("other", net, {{"address", "00:07:43:12:34:51"}});
  tree.interface("ens1f4", net, {{"address", "00:07:43:12:34:50"}});
  // The RDMA device hangs on another function than its interfaces.
  tree.rdma("cxgb4_0", tree.pci("0000:3b:00.5", "iw_cxgb4"), 1,
            {{"node_type", "4: RNIC"}, {"gids/0", "0007:4312:3450:0000:0000:0000:0000:0000"}});
  const auto ports = read_rdma_ports(SysTree(tree.root()), false);
  ASSERT_EQ(ports.size(), 1U);
  EXPECT_EQ(ports[0].nic.kind, NicKind::kIwarp);
  EXPECT_EQ(ports[0].interface, "ens1f4");
  EXPECT_EQ(ports[0].problem, "");
}

TEST(RdmaPortFacts, AreReadOfWhatIsNumberedAsAPort) {
  RecordedTree tree;
  const auto pci = tree.pci("0000:18:00.0", "mlx5_core", 1);
  const auto device = tree.rdma("mlx5_0", pci, 1);
  for (const char* odd : {"0", "256", "x", "1x", "99999999999999999999"})
    tree.folder(device + "/ports/" + odd);
  tree.folder("/sys/class/infiniband/empty");
  const auto ports = read_rdma_ports(SysTree(tree.root()), false);
  ASSERT_EQ(ports.size(), 1U);
  EXPECT_EQ(ports[0].nic.name, "mlx5_0/1");
  EXPECT_EQ(ports[0].nic.numa_node, 1);
  EXPECT_EQ(ports[0].nic.pci_path, "/sys/devices/pci0000:17/0000:18:00.0");
}

}  // namespace
}  // namespace tombolo::topology
