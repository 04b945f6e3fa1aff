#include "topology/judge/usability.h"

#include <gtest/gtest.h>

namespace tombolo::topology {
namespace {

Interface interface_named(const std::string& name, NicRole role = NicRole::kPhysical) {
  Interface made;
  made.nic.name = name;
  made.nic.role = role;
  made.nic.state = NicState::kUp;
  made.nic.rate_bits_per_second = 10'000'000'000;
  made.nic.addresses = {"10.0.0.1"};
  made.enabled = made.addresses_known = true;
  if (role == NicRole::kVirtual) made.what = "veth pair";
  if (role == NicRole::kLoopback) made.what = "loopback";
  return made;
}

/// A port of a RoCE or InfiniBand NIC that works.
RdmaPort port_on(const std::string& interface, NicKind kind) {
  RdmaPort made;
  made.nic.name = "mlx5_0/1";
  made.nic.rdma_device = "mlx5_0";
  made.nic.rdma_port = 1;
  made.nic.kind = kind;
  made.nic.state = NicState::kUp;
  made.nic.rate_bits_per_second = 100'000'000'000;
  made.nic.fabric = nic_kind_name(kind);
  made.nic.gids = {
      {0, "fe80:0000:0000:0000:b859:9f03:00c3:ab60", kind == NicKind::kRoce ? "RoCE v2" : "IB/RoCE v1"}};
  made.interface = interface;
  return made;
}

Nic judged_alone(const Interface& interface) {
  // A working NIC beside it, so that it is not taken for want of a better one.
  return judge({interface, interface_named("zz0")}, {}).front();
}

TEST(Usability, APhysicalInterfaceWithAnAddressCarriesTcp) {
  const Nic nic = judged_alone(interface_named("eth0"));
  EXPECT_TRUE(nic.usable);
  EXPECT_EQ(nic.reason, "TCP at 10 Gbit/s");
  EXPECT_EQ(nic.fabric, "");
}

struct Unusable {
  const char* part;  // of the reason
  void (*change)(Interface&);
};

TEST(Usability, TheReasonSaysWhatIsMissingAndWhatToDo) {
  const Unusable cases[] = {
      {"no link; check the cable", [](Interface& one) { one.nic.state = NicState::kDown; }},
      {"ip link set eth0 up",
       [](Interface& one) {
         one.nic.state = NicState::kDown;
         one.enabled = false;
       }},
      {"ip address add", [](Interface& one) { one.nic.addresses.clear(); }},
      {"only link-local addresses",
       [](Interface& one) {
         one.nic.addresses = {"169.254.3.4", "fe80::1%eth0"};
       }},
      {"belongs to bridge br0", [](Interface& one) { one.master = "br0"; }},
      {"representor", [](Interface& one) {
         one.representor = true;
         one.what = "representor of pf0vf1";
       }}};
  for (const Unusable& each : cases) {
    Interface interface = interface_named("eth0");
    each.change(interface);
    const Nic nic = judged_alone(interface);
    EXPECT_FALSE(nic.usable) << each.part;
    EXPECT_NE(nic.reason.find(each.part), std::string::npos) << nic.reason;
  }
}

TEST(Usability, ARecordingThatTellsNoAddressesSpeaksAgainstNothing) {
  Interface interface = interface_named("eth0");
  interface.addresses_known = false;
  interface.nic.addresses.clear();
  EXPECT_TRUE(judged_alone(interface).usable);
}

TEST(Usability, VirtualInterfacesAndLoopbackAreForWantOfBetterOnes) {
  const Interface virtual_one = interface_named("veth0", NicRole::kVirtual),
                  loopback = interface_named("lo", NicRole::kLoopback);
  const auto usable = [](const std::vector<Interface>& interfaces) {
    std::string names;
    for (const Nic& nic : judge(interfaces, {}))
      if (nic.usable) names += nic.name + " ";
    return names;
  };
  EXPECT_EQ(usable({loopback, virtual_one, interface_named("eth0")}), "eth0 ");
  EXPECT_EQ(usable({loopback, virtual_one}), "veth0 ");
  EXPECT_EQ(usable({loopback}), "lo ");
}

TEST(Usability, AVlanHasTheSpeedAndThePciFunctionOfWhatItLiesOn) {
  Interface lower = interface_named("eth0"), vlan = interface_named("eth0.7", NicRole::kVlan);
  lower.nic.pci_path = "/sys/devices/pci0000:17/0000:18:00.0";
  lower.nic.numa_node = 1;
  vlan.lower = "eth0";
  vlan.nic.rate_bits_per_second = 0;
  const Nic nic = judge({vlan, lower}, {}).front();
  EXPECT_TRUE(nic.usable);
  EXPECT_EQ(nic.rate_bits_per_second, lower.nic.rate_bits_per_second);
  EXPECT_EQ(nic.pci_path, lower.nic.pci_path);
  EXPECT_EQ(nic.numa_node, 1);
  EXPECT_NE(nic.reason.find("VLAN on eth0"), std::string::npos) << nic.reason;
}

TEST(Usability, ARocePortMakesItsInterfaceARoceNic) {
  const auto nics =
      judge({interface_named("eth0"), interface_named("eth1")}, {port_on("eth1", NicKind::kRoce)});
  ASSERT_EQ(nics.size(), 2U);
  EXPECT_EQ(nics[0].kind, NicKind::kTcp);
  EXPECT_EQ(nics[1].kind, NicKind::kRoce);
  EXPECT_TRUE(nics[1].usable);
  EXPECT_EQ(nics[1].rdma_device, "mlx5_0");
  EXPECT_EQ(nics[1].reason, "RoCE v2 at 100 Gbit/s");
  EXPECT_EQ(nics[1].fabric, "roce");
}

TEST(Usability, ARoceNicThatIsTheOnlyOneIsOnTheFabricThatAllShare) {
  const auto nics = judge({interface_named("eth1")}, {port_on("eth1", NicKind::kRoce)});
  ASSERT_EQ(nics.size(), 1U);
  EXPECT_EQ(nics[0].kind, NicKind::kRoce);
  EXPECT_EQ(nics[0].fabric, "");
}

TEST(Usability, AnInterfaceWhoseRocePortDoesNotWorkCarriesTcp) {
  RdmaPort port = port_on("eth1", NicKind::kRoce);
  port.problem = "libibverbs cannot be loaded";
  const Nic nic = judge({interface_named("eth1"), interface_named("zz0")}, {port}).front();
  EXPECT_TRUE(nic.usable);
  EXPECT_EQ(nic.kind, NicKind::kTcp);
  EXPECT_NE(nic.reason.find("(without roce of mlx5_0: libibverbs cannot be loaded)"), std::string::npos)
      << nic.reason;
}

TEST(Usability, InfiniBandNeedsNoIpInterfaceButRoceDoes) {
  const auto infiniband = judge({}, {port_on("", NicKind::kInfiniBand)}),
             roce = judge({}, {port_on("", NicKind::kRoce)});
  ASSERT_EQ(infiniband.size(), 1U);
  EXPECT_TRUE(infiniband[0].usable);
  EXPECT_EQ(infiniband[0].name, "mlx5_0/1");
  ASSERT_EQ(roce.size(), 1U);
  EXPECT_FALSE(roce[0].usable);
  EXPECT_EQ(roce[0].reason, "has no network interface, and so no address");
}

TEST(Usability, AVirtualFunctionBesideItsPhysicalOneIsNotUsed) {
  Interface physical = interface_named("eth0"),
            function = interface_named("eth0v0", NicRole::kVirtualFunction);
  physical.nic.pci_path = "/sys/devices/pci0000:17/0000:18:00.0";
  function.physical_function = "0000:18:00.0";
  const auto nics = judge({physical, function}, {});
  EXPECT_TRUE(nics[0].usable);
  EXPECT_FALSE(nics[1].usable);
  EXPECT_NE(nics[1].reason.find("whose wire is used as eth0"), std::string::npos) << nics[1].reason;
  physical.nic.state = NicState::kDown;
  EXPECT_TRUE(judge({physical, function}, {})[1].usable) << "the physical one is not used";
}

}  // namespace
}  // namespace tombolo::topology
