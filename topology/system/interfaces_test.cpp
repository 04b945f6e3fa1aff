// What /sys says of single interfaces. What follows for their use: topology/judge, topology/detect_test.cpp.
#include "topology/system/interfaces.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "topology/testing/recorded_tree.h"

namespace tombolo::topology {
namespace {

using Files = std::map<std::string, std::string>;

/// An interface of a tree, without a device.
Interface virtual_interface(const std::string& name, const Files& files) {
  RecordedTree tree;
  tree.interface(name, "", files);
  return read_interface_from_sys(SysTree(tree.root()), name);
}

/// An interface of a PCI function.
Interface physical_interface(const Files& files, const std::string& driver = "mlx5_core") {
  RecordedTree tree;
  tree.interface("eth0", tree.pci("0000:18:00.0", driver, 1), files);
  return read_interface_from_sys(SysTree(tree.root()), "eth0");
}

struct Sort {
  const char* name;
  Files files;
  NicRole role;
  const char* what;
};

TEST(Interfaces, AreToldApartByTheMarksOfTheKernel) {
  const Sort sorts[] = {
      {"lo", {{"type", "772"}}, NicRole::kLoopback, "loopback"},
      {"b0", {{"bonding/mode", "802.3ad 4"}}, NicRole::kBond, "bond"},
      {"br0", {{"bridge/stp_state", "0"}}, NicRole::kContainerBridge, "bridge"},
      {"t0", {{"tun_flags", "0x1001"}}, NicRole::kTunnel, "TUN/TAP tunnel"},
      {"t1", {{"uevent", "INTERFACE=t1\nDEVTYPE=geneve"}}, NicRole::kTunnel, "Geneve tunnel"},
      {"t2", {{"uevent", "DEVTYPE=team"}}, NicRole::kBond, "team"},
      {"m0", {{"uevent", "DEVTYPE=macvlan"}}, NicRole::kVirtual, "macvlan"},
      {"g0", {{"type", "778"}}, NicRole::kTunnel, "tunnel"},
      {"v0", {{"iflink", "99"}}, NicRole::kVirtual, "veth pair"},
      {"dummy0", {}, NicRole::kVirtual, "dummy"},
      {"odd0", {}, NicRole::kVirtual, "software device"},
      {"odd1", {{"uevent", "DEVTYPE=never heard of"}}, NicRole::kVirtual, "software device"}};
  for (const Sort& sort : sorts) {
    const Interface found = virtual_interface(sort.name, sort.files);
    EXPECT_EQ(nic_role_name(found.nic.role), nic_role_name(sort.role)) << sort.name;
    EXPECT_EQ(found.what, sort.what) << sort.name;
    EXPECT_EQ(found.nic.name, sort.name);
  }
}

TEST(Interfaces, WithADeviceAreItsPortsUnlessTheyStandForAnotherFunction) {
  const auto named = [](const char* port) { return physical_interface({{"phys_port_name", port}}); };
  for (const char* representor : {"pf0vf3", "c1pf0sf88", "pf12vf0"}) {
    const Interface found = named(representor);
    EXPECT_TRUE(found.representor) << representor;
    EXPECT_EQ(found.nic.role, NicRole::kVirtual) << representor;
    EXPECT_EQ(found.what, fmt::format("representor of {}", representor));
  }
  for (const char* own : {"p0", "", "pf0", "pf0vf", "pfvf1", "c1", "cpf0vf1", "pf0vf1x", "1"}) {
    const Interface found = named(own);
    EXPECT_FALSE(found.representor) << own;
    EXPECT_EQ(found.nic.role, NicRole::kPhysical) << own;
  }
  EXPECT_EQ(physical_interface({}, "ena").what, "AWS ENA");
  EXPECT_EQ(physical_interface({}, "iavf").nic.role, NicRole::kVirtualFunction);
  EXPECT_EQ(physical_interface({}, "iavf").what, "virtual function of a card that the host shares out");
}

TEST(Interfaces, HaveTheDriverNodeAndPlaceOfTheirFunction) {
  const Interface found = physical_interface({{"ifindex", "7"}, {"address", "02:fc:00:00:00:09"}});
  EXPECT_EQ(found.nic.driver, "mlx5_core");
  EXPECT_EQ(found.nic.numa_node, 1);
  EXPECT_EQ(found.nic.pci_path, "/sys/devices/pci0000:17/0000:18:00.0");
  EXPECT_EQ(found.index, 7);
  EXPECT_EQ(found.hardware_address, "02:fc:00:00:00:09");
  EXPECT_FALSE(found.wireless);
  EXPECT_TRUE(physical_interface({{"uevent", "DEVTYPE=wlan"}}).wireless);
  EXPECT_TRUE(physical_interface({{"wireless/status", "0"}}).wireless);
}

TEST(Interfaces, HaveARateOnlyWhereHardwareGivesOneThatCanBe) {
  const auto rate = [](const char* speed) {
    return physical_interface({{"speed", speed}}).nic.rate_bits_per_second;
  };
  EXPECT_EQ(rate("25000"), 25'000'000'000U);
  for (const char* none : {"-1", "0", "4294967295", "100000001", "fast", ""})
    EXPECT_EQ(rate(none), 0U) << none;
  EXPECT_EQ(virtual_interface("v0", {{"iflink", "99"}, {"speed", "10000"}}).nic.rate_bits_per_second, 0U)
      << "a veth pair claims this";
}

TEST(Interfaces, HaveAnMtuAndANumberWithinReason) {
  const auto mtu = [](const char* text) { return physical_interface({{"mtu", text}}).nic.mtu; };
  EXPECT_EQ(mtu("9000"), 9000);
  EXPECT_EQ(mtu("68"), 68);
  for (const char* none : {"67", "-1500", "1048577", "99999999999999999999", ""})
    EXPECT_EQ(mtu(none), 0) << none;
  EXPECT_EQ(physical_interface({{"ifindex", "-3"}}).index, 0);
}

TEST(Interfaces, AreUpWhereTheKernelSaysSoOrHasNoCarrierToReport) {
  struct Case {
    const char *operstate, *flags;
    NicState state;
    bool enabled;
  };
  for (const Case& one :
       {Case{"up", "0x1003", NicState::kUp, true}, Case{"down", "0x1003", NicState::kDown, true},
        Case{"lowerlayerdown", "0x1003", NicState::kDown, true},
        Case{"dormant", "0x1003", NicState::kDown, true}, Case{"unknown", "0x1003", NicState::kUp, true},
        Case{"unknown", "0x1002", NicState::kDown, false},
        Case{"strange", "0x1003", NicState::kUnknown, true}}) {
    const Interface found = physical_interface({{"operstate", one.operstate}, {"flags", one.flags}});
    EXPECT_EQ(found.nic.state, one.state) << one.operstate << " " << one.flags;
    EXPECT_EQ(found.enabled, one.enabled) << one.operstate << " " << one.flags;
  }
}

TEST(Interfaces, OfIpOverInfiniBandTellTheirPortsSubnet) {
  const auto prefix = [](const char* type, const char* address) {
    return physical_interface({{"type", type}, {"address", address}}).infiniband_prefix;
  };
  constexpr const char* kAddress = "00:00:10:87:fe:80:00:00:00:00:00:07:b8:59:9f:03:00:c3:ab:60";
  EXPECT_EQ(prefix("32", kAddress), "fe80:0000:0000:0007");
  EXPECT_EQ(prefix("1", kAddress), "") << "Ethernet has no such address";
  EXPECT_EQ(prefix("32", "02:fc:00:00:00:01"), "");
}

TEST(Interfaces, KnowWhatTheyLieOnAndWhatBelongsToThem) {
  RecordedTree tree;
  const auto member = tree.interface("eno1", tree.pci("0000:01:00.0", "igb"));
  const auto bond = tree.interface("bond0", "", {{"bonding/mode", "802.3ad 4"}});
  tree.link(member + "/master", bond);
  tree.link(bond + "/lower_eno1", member);
  const auto vlan = tree.interface("bond0.7", "", {{"uevent", "DEVTYPE=vlan"}});
  tree.link(vlan + "/lower_bond0", bond);
  const auto bridge = tree.interface("br0", "", {{"bridge/stp_state", "0"}});
  tree.folder(bridge + "/brif/veth1");
  const SysTree system(tree.root());
  EXPECT_EQ(read_interface_from_sys(system, "eno1").master, "bond0");
  EXPECT_EQ(read_interface_from_sys(system, "bond0").members, std::vector<std::string>{"eno1"});
  EXPECT_EQ(read_interface_from_sys(system, "bond0.7").lower, "bond0");
  EXPECT_EQ(read_interface_from_sys(system, "br0").members, std::vector<std::string>{"veth1"});
}

TEST(Interfaces, OfATreeAreItsFoldersAndHaveTheAddressesThatItTells) {
  RecordedTree tree;
  tree.interface("eth1", "");
  tree.interface("eth0", "");
  tree.file("/sys/class/net/bonding_masters", "bond0");
  const auto names = [&] {
    std::string all;
    for (const Interface& one : read_interfaces(SysTree(tree.root()), false))
      all += fmt::format("{}{}{} ", one.nic.name, one.addresses_known ? "=" : "?",
                         fmt::join(one.nic.addresses, ","));
    return all;
  };
  EXPECT_EQ(names(), "eth0? eth1? ");
  tree.file("/proc/net/if_inet6", "fd000002000000000000000000000010 02 40 00 80     eth1");
  EXPECT_EQ(names(), "eth0= eth1=fd00:2::10 ");
}

}  // namespace
}  // namespace tombolo::topology
