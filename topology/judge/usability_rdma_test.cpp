#include "topology/judge/usability_rdma.h"

#include <gtest/gtest.h>

namespace tombolo::topology {
namespace {

/// Interfaces with the verdicts that they have by themselves, and RDMA ports that are added to them.
class RdmaPorts : public ::testing::Test {
 protected:
  Interface& add_interface(const std::string& name, NicRole role = NicRole::kPhysical) {
    Interface made;
    made.nic.name = name;
    made.nic.role = role;
    made.nic.state = NicState::kUp;
    made.nic.usable = made.addresses_known = true;
    made.nic.reason = "TCP, up";
    interfaces_.push_back(made);
    return interfaces_.back();
  }
  static RdmaPort port_of(const std::string& interface, NicKind kind, const std::string& device = "mlx5_0") {
    RdmaPort made;
    made.nic.name = device + "/1";
    made.nic.rdma_device = device;
    made.nic.rdma_port = 1;
    made.nic.kind = kind;
    made.nic.state = NicState::kUp;
    made.nic.rate_bits_per_second = 100'000'000'000;
    made.nic.fabric = nic_kind_name(kind);
    made.nic.pci_path = "/sys/devices/pci0000:17/0000:18:00.0";
    made.interface = interface;
    return made;
  }
  /// Begins with the interfaces, then adds the ports.
  std::vector<Nic> add(std::vector<RdmaPort> ports) {
    std::vector<Nic> nics;
    for (const Interface& one : interfaces_) nics.push_back(one.nic);
    for (RdmaPort& port : ports) add_port(nics, std::move(port), interfaces_);
    return nics;
  }
  static void expect_verdict(const Nic& nic, bool usable, std::string_view part) {
    EXPECT_EQ(nic.usable, usable) << nic.name << ": " << nic.reason;
    EXPECT_NE(nic.reason.find(part), std::string::npos) << nic.name << ": " << nic.reason;
  }

  std::vector<Interface> interfaces_;
};

TEST(OfferText, NamesKindVersionAndRate) {
  const auto text = [](NicKind kind, bool v1, bool v2, std::uint64_t rate) {
    Nic nic;
    nic.kind = kind;
    nic.roce_v1 = v1;
    nic.roce_v2 = v2;
    nic.rate_bits_per_second = rate;
    return offer_text(nic);
  };
  EXPECT_EQ(text(NicKind::kRoce, true, true, 100'000'000'000), "RoCE v1 and v2 at 100 Gbit/s");
  EXPECT_EQ(text(NicKind::kRoce, true, false, 0), "RoCE v1, up");
  EXPECT_EQ(text(NicKind::kRoce, false, true, 0), "RoCE v2, up");
  EXPECT_EQ(text(NicKind::kRoce, false, false, 0), "RoCE, up");
  EXPECT_EQ(text(NicKind::kIwarp, true, true, 0), "iWARP, up");
  EXPECT_EQ(text(NicKind::kInfiniBand, false, false, 2'500'000'000), "InfiniBand at 2.5 Gbit/s");
  EXPECT_EQ(text(NicKind::kTcp, false, false, 0), "TCP, up");
}

TEST_F(RdmaPorts, WhoseInterfaceIsElsewhereHaveNoAddressUnlessTheyAreInfiniBand) {
  const auto nics = add({port_of("ens3", NicKind::kRoce), port_of("ib0", NicKind::kInfiniBand, "mlx5_1")});
  ASSERT_EQ(nics.size(), 2U);
  expect_verdict(nics[0], false, "its interface ens3 is not in this network namespace");
  expect_verdict(nics[1], true, "InfiniBand at 100 Gbit/s, without an IP interface");
}

TEST_F(RdmaPorts, KeepTheVerdictOfAnInterfaceThatCannotBeUsed) {
  Interface& down = add_interface("ens3");
  down.nic.usable = false;
  down.nic.reason = "no link";
  Interface& without_ip = add_interface("ib0");
  without_ip.nic.usable = false;
  without_ip.nic.reason = "no address";
  const auto nics = add({port_of("ens3", NicKind::kRoce), port_of("ib0", NicKind::kInfiniBand, "mlx5_1")});
  expect_verdict(nics[0], false, "no link");
  EXPECT_EQ(nics[0].kind, NicKind::kRoce);
  expect_verdict(nics[1], true, "InfiniBand at 100 Gbit/s");
}

TEST_F(RdmaPorts, OfInfiniBandThatAreDownKeepIpDownToo) {
  add_interface("ib0");
  RdmaPort port = port_of("ib0", NicKind::kInfiniBand);
  port.nic.state = NicState::kDown;
  port.problem = "the port is in state INIT";
  auto nics = add({port});
  expect_verdict(nics[0], false, "the port is in state INIT");
  EXPECT_EQ(nics[0].state, NicState::kDown);
  // What keeps RDMA alone from working does not.
  port.nic.state = NicState::kUp;
  port.problem = "libibverbs cannot be loaded";
  interfaces_[0].infiniband_prefix = "fe80:0000:0000:0007";
  nics = add({port});
  expect_verdict(nics[0], true, "TCP, up (without infiniband of mlx5_0: libibverbs cannot be loaded)");
  EXPECT_EQ(nics[0].kind, NicKind::kTcp);
  EXPECT_EQ(nics[0].fabric, "infiniband-fe80:0000:0000:0007");
}

TEST_F(RdmaPorts, OfAnotherSortLeaveTheInterfaceToTcp) {
  add_interface("ens5");
  RdmaPort foreign = port_of("ens5", NicKind::kTcp, "efa_0");
  foreign.nic.fabric.clear();
  foreign.problem = "AWS's EFA";
  const auto nics = add({foreign});
  ASSERT_EQ(nics.size(), 1U);
  expect_verdict(nics[0], true, "TCP, up (efa_0 is AWS's EFA)");
  EXPECT_EQ(nics[0].rdma_device, "");
}

TEST_F(RdmaPorts, OfABondBelongToItWhereTheKernelNamesAMember) {
  add_interface("ens3f0").master = "bond0";
  Interface& bond = add_interface("bond0", NicRole::kBond);
  bond.members = {"ens3f0", "ens3f1"};
  bond.nic.rate_bits_per_second = 200'000'000'000;
  RdmaPort port = port_of("ens3f0", NicKind::kRoce, "mlx5_bond_0");
  port.nic.gids = {{0, "fe80:0000:0000:0000:b859:9f03:00c3:ab60", "RoCE v2"}};
  port.interface_of_gid = {{0, "ens3f0"}};
  auto nics = add({port});
  ASSERT_EQ(nics.size(), 2U);
  EXPECT_EQ(nics[0].rdma_device, "");
  EXPECT_EQ(nics[1].gids.size(), 1U) << "those that the kernel gives to the member";
  expect_verdict(nics[1], true, "RoCE v2 at 200 Gbit/s, bond of ens3f0 and ens3f1");
  // A device that is not the bond's own stays with its interface.
  port = port_of("ens3f0", NicKind::kRoce, "mlx5_0");
  nics = add({port});
  EXPECT_EQ(nics[0].rdma_device, "mlx5_0");
  EXPECT_EQ(nics[1].rdma_device, "");
}

TEST_F(RdmaPorts, ShareTheirGidsAmongTheInterfacesThatOwnThem) {
  add_interface("ens3").addresses_known = false;
  Interface& vlan = add_interface("ens3.7", NicRole::kVlan);
  vlan.lower = "ens3";
  add_interface("ens3.8", NicRole::kVlan).lower = "ens3";
  RdmaPort port = port_of("ens3", NicKind::kRoce);
  port.nic.gids = {{0, "fe80:0000:0000:0000:b859:9f03:00c3:ab60", "IB/RoCE v1"},
                   {1, "0000:0000:0000:0000:0000:ffff:0a02:ff0a", "RoCE v2"},
                   {2, "0000:0000:0000:0000:0000:ffff:0a07:000a", "RoCE v2"}};
  port.interface_of_gid = {{0, "ens3"}, {2, "ens3.7"}};
  const auto nics = add({port});
  ASSERT_EQ(nics.size(), 3U);
  EXPECT_EQ(nics[0].gids.size(), 2U) << "what nobody owns is the port's own interface's";
  EXPECT_EQ(nics[0].addresses, std::vector<std::string>{"10.2.255.10"}) << "from its GID: no other is known";
  EXPECT_TRUE(nics[0].roce_v1 && nics[0].roce_v2);
  EXPECT_EQ(nics[1].kind, NicKind::kRoce);
  ASSERT_EQ(nics[1].gids.size(), 1U);
  EXPECT_EQ(nics[1].gids[0].index, 2);
  EXPECT_TRUE(nics[1].addresses.empty()) << "its addresses are known: it has none";
  expect_verdict(nics[1], true, "RoCE v2 at 100 Gbit/s, VLAN on ens3");
  EXPECT_EQ(nics[2].kind, NicKind::kTcp) << "no GID is its own";
}

TEST_F(RdmaPorts, OfRoceVersionOneReachNoFurtherThanTheirNetwork) {
  Interface& one = add_interface("ens3");
  one.nic.networks = {"10.2.0.0/24"};
  RdmaPort port = port_of("ens3", NicKind::kRoce);
  port.nic.gids = {{0, "fe80:0000:0000:0000:b859:9f03:00c3:ab60", "IB/RoCE v1"}};
  EXPECT_EQ(add({port})[0].fabric, "roce-10.2.0.0/24");
  port.nic.gids.push_back({1, "fe80:0000:0000:0000:b859:9f03:00c3:ab60", "RoCE v2"});
  EXPECT_EQ(add({port})[0].fabric, "roce");
}

TEST_F(RdmaPorts, OfIpOverInfiniBandThatAreNotSeenLeaveItToTcpOnTheirFabric) {
  add_interface("ib0").infiniband_prefix = "fe80:0000:0000:0000";
  interfaces_[0].nic.pci_path = "/sys/devices/pci0000:17/0000:18:00.0";
  std::vector<Nic> nics = add({});
  judge_ipoib(nics, interfaces_);
  expect_verdict(nics[0], true, "IP over InfiniBand whose RDMA port is not visible here");
  EXPECT_EQ(nics[0].fabric, "infiniband-fe80:0000:0000:0000");
  // Beside the port it is another partition of it.
  nics = add({port_of("", NicKind::kInfiniBand)});
  judge_ipoib(nics, interfaces_);
  expect_verdict(nics[0], false, "another partition of the port that mlx5_0/1 stands for");
  // What was not usable before keeps its reason.
  interfaces_[0].nic.usable = false;
  interfaces_[0].nic.reason = "no link";
  nics = add({});
  judge_ipoib(nics, interfaces_);
  expect_verdict(nics[0], false, "no link");
  EXPECT_EQ(nics[0].fabric, "infiniband-fe80:0000:0000:0000");
}

TEST_F(RdmaPorts, OfAVirtualFunctionAreKeptWhereTheyAreBetterThanThePhysicalOne) {
  add_interface("ens3").nic.pci_path = "/sys/devices/pci0000:17/0000:18:00.0";
  add_interface("ens3v0", NicRole::kVirtualFunction);
  const std::map<std::string, std::string> physical{{"ens3v0", "0000:18:00.0"}, {"ens3", ""}};
  std::vector<Nic> nics = add({});
  set_functions_aside(nics, physical);
  expect_verdict(nics[0], true, "TCP, up");
  expect_verdict(nics[1], false, "virtual function of 0000:18:00.0, whose wire is used as ens3 already");
  nics = add({port_of("ens3v0", NicKind::kRoce)});
  set_functions_aside(nics, physical);
  expect_verdict(nics[1], true, "RoCE at 100 Gbit/s, virtual function");
}

}  // namespace
}  // namespace tombolo::topology
