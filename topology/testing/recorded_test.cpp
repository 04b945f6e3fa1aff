// What is detected on the machines of topology/recorded/.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "topology/testing/recorded_machine.h"

namespace tombolo::topology {
namespace {

using Texts = std::vector<std::string>;

TEST(Recorded, InfiniBandHasItsRateSubnetAndPlace) {
  RecordedMachine host("infiniband-hdr");
  EXPECT_EQ(host.machine.host_name, "ib-host");
  EXPECT_EQ(host.machine.cores, 64);
  EXPECT_EQ(host.used(), "ib0 eno1");
  host.expect("ib0", NicKind::kInfiniBand, true, "InfiniBand at 200 Gbit/s");
  const Nic& ib = host.nic("ib0");
  EXPECT_EQ(ib.rdma_device, "mlx5_0");
  EXPECT_EQ(ib.rdma_port, 1);
  EXPECT_EQ(ib.rate_bits_per_second, 200'000'000'000U);
  EXPECT_EQ(ib.mtu, 2044);
  EXPECT_EQ(ib.state, NicState::kUp);
  EXPECT_EQ(ib.driver, "mlx5_core");
  EXPECT_EQ(ib.numa_node, 1);
  EXPECT_EQ(ib.pci_path, "/sys/devices/pci0000:16/0000:16:02.0/0000:17:00.0/0000:18:00.0/0000:19:00.0");
  EXPECT_EQ(ib.addresses, Texts{"10.1.0.10"});
  EXPECT_EQ(ib.networks, Texts{"10.1.0.0/16"});
  EXPECT_EQ(ib.fabric, "infiniband-fe80:0000:0000:0000");
  ASSERT_EQ(ib.gids.size(), 1U);
  EXPECT_EQ(ib.gids[0].value, "fe80:0000:0000:0000:b859:9f03:00c3:ab60");
  host.expect("ib0.8001", NicKind::kTcp, false, "another partition of the port that ib0 stands for");
  EXPECT_EQ(host.nic("ib0.8001").fabric, ib.fabric) << "its IP network is not the Ethernet that all share";
  const Nic& management = host.nic("eno1");
  EXPECT_EQ(management.routes, Texts{"0.0.0.0/0"});
  EXPECT_EQ(management.fabric, "");
  EXPECT_EQ(management.addresses, (Texts{"192.168.7.10", "fe80::3eec:efff:fe10:2030%eno1"}));
}

TEST(Recorded, RoceHasVersionsAddressesAndRoutes) {
  RecordedMachine host("roce-v2");
  host.expect("ens3f0np0", NicKind::kRoce, true, "RoCE v1 and v2 at 100 Gbit/s");
  const Nic& roce = host.nic("ens3f0np0");
  EXPECT_EQ(roce.rdma_device, "mlx5_0");
  EXPECT_EQ(roce.mtu, 9000);
  EXPECT_EQ(roce.fabric, "roce");
  EXPECT_EQ(roce.networks, (Texts{"10.2.0.0/24", "fd00:2::/64"}));
  EXPECT_EQ(roce.routes, Texts{"10.2.0.0/16"});
  EXPECT_EQ(roce.addresses, (Texts{"10.2.0.10", "fd00:2::10", "fe80::ba59:9fff:fec3:ab60%ens3f0np0"}));
  EXPECT_EQ(roce.gids.size(), 6U);
  EXPECT_EQ(host.machine.processor.vendor, "AuthenticAMD");
  EXPECT_EQ(host.machine.processor.family, 25);
}

TEST(Recorded, TwoPortsOfOneCardAreTwoKinds) {
  RecordedMachine host("dual-port");
  host.expect("ibp59s0f0", NicKind::kInfiniBand, true, "InfiniBand at 200 Gbit/s");
  host.expect("enp59s0f1", NicKind::kRoce, true, "RoCE v1 and v2 at 200 Gbit/s");
  EXPECT_EQ(host.nic("enp59s0f1").addresses, Texts{"10.3.0.10"}) << "from its GID: there is no /proc/net";
  EXPECT_EQ(host.nic("ibp59s0f0").fabric, "infiniband-fec0:0000:0000:000a");
  // One function, one RDMA device, two ports.
  host.expect("ib0", NicKind::kInfiniBand, true, "InfiniBand at 56 Gbit/s");
  host.expect("enp134s0d1", NicKind::kRoce, true, "RoCE v1 at 40 Gbit/s");
  EXPECT_EQ(host.nic("ib0").rdma_device, "mlx4_0");
  EXPECT_EQ(host.nic("ib0").rdma_port, 1);
  EXPECT_EQ(host.nic("enp134s0d1").rdma_device, "mlx4_0");
  EXPECT_EQ(host.nic("enp134s0d1").rdma_port, 2);
  EXPECT_EQ(host.nic("ib0").fabric, "infiniband-fec0:0000:0000:000b")
      << "another subnet than the other card's";
}

TEST(Recorded, AVirtualFunctionBesideItsPhysicalOneIsTheSameWire) {
  RecordedMachine host("sriov-host");
  EXPECT_EQ(host.used(), "ens5f0np0");
  host.expect("ens5f0np0", NicKind::kRoce, true, "RoCE v1 and v2 at 100 Gbit/s");
  host.expect("ens5f0v0", NicKind::kRoce, false,
              "virtual function of 0000:c1:00.0, whose wire is used as ens5f0np0");
  EXPECT_EQ(host.nic("ens5f0v0").role, NicRole::kVirtualFunction);
  EXPECT_EQ(host.nic("ens5f0v0").rdma_device, "mlx5_2");
  for (const char* name : {"enp193s0f0npf0vf0", "enp193s0f0npf0vf1"}) {
    host.expect(name, NicKind::kTcp, false, "representor of pf0vf");
    EXPECT_EQ(host.nic(name).role, NicRole::kVirtual);
  }
}

TEST(Recorded, AGuestUsesTheVirtualFunctionsThatItHas) {
  RecordedMachine guest("sriov-guest");
  EXPECT_EQ(guest.used(), "ens5 ens6");
  guest.expect("ens5", NicKind::kRoce, true, "virtual function of a card that the host shares out");
  guest.expect("ens6", NicKind::kTcp, true,
               "TCP at 25 Gbit/s, virtual function of a card that the host shares out");
  EXPECT_EQ(guest.nic("ens5").role, NicRole::kVirtualFunction);
  EXPECT_EQ(guest.nic("ens6").role, NicRole::kVirtualFunction);
  EXPECT_EQ(guest.nic("ens5").numa_node, std::nullopt);
}

TEST(Recorded, ABondOfRocePortsIsOneRoceNic) {
  RecordedMachine host("roce-bond");
  host.expect("bond0", NicKind::kRoce, true, "RoCE v1 and v2 at 200 Gbit/s, bond of ens7f0np0 and ens7f1np1");
  const Nic& bond = host.nic("bond0");
  EXPECT_EQ(bond.role, NicRole::kBond);
  EXPECT_EQ(bond.rdma_device, "mlx5_bond_0");
  EXPECT_EQ(bond.rate_bits_per_second, 200'000'000'000U) << "of both members, not of the device's one port";
  EXPECT_EQ(bond.pci_path, "/sys/devices/pci0000:5d/0000:5d:02.0/0000:5e:00.0");
  EXPECT_EQ(bond.gids.size(), 4U) << "without the VLAN's";
  EXPECT_EQ(bond.addresses, Texts{"10.2.0.40"});
  host.expect("ens7f0np0", NicKind::kTcp, false, "belongs to bond bond0, which carries its traffic");
  host.expect("ens7f1np1", NicKind::kTcp, false, "belongs to bond bond0, which carries its traffic");
  host.expect("bond0.200", NicKind::kRoce, true, "VLAN on bond0");
  EXPECT_EQ(host.nic("bond0.200").addresses, Texts{"10.4.0.40"});
  EXPECT_EQ(host.nic("bond0.200").numa_node, 0);
}

TEST(Recorded, AVlanOnARocePortIsRoceWithItsOwnGids) {
  RecordedMachine host("roce-vlan");
  EXPECT_EQ(host.used(), "ens7np0.100 eno1");
  host.expect("ens7np0.100", NicKind::kRoce, true, "RoCE v1 and v2 at 100 Gbit/s, VLAN on ens7np0");
  const Nic& vlan = host.nic("ens7np0.100");
  EXPECT_EQ(vlan.role, NicRole::kVlan);
  EXPECT_EQ(vlan.rdma_device, "mlx5_0");
  ASSERT_EQ(vlan.gids.size(), 2U);
  EXPECT_EQ(vlan.gids[1].index, 3);
  EXPECT_EQ(vlan.gids[1].type, "RoCE v2");
  EXPECT_EQ(vlan.driver, "mlx5_core");
  EXPECT_EQ(vlan.addresses, Texts{"10.5.0.10"});
  host.expect("ens7np0", NicKind::kRoce, false, "has only link-local addresses");
  EXPECT_EQ(host.nic("ens7np0").gids.size(), 2U);
}

TEST(Recorded, CloudNicsAreEthernetAndSayWhatTheyAre) {
  RecordedMachine virtio("virtio");
  virtio.expect("ens3", NicKind::kTcp, true, "TCP, up, virtio NIC of a virtual machine");
  EXPECT_EQ(virtio.nic("ens3").driver, "virtio_net");
  EXPECT_EQ(virtio.nic("ens3").pci_path, "/sys/devices/pci0000:00/0000:00:03.0");
  EXPECT_EQ(virtio.nic("ens3").addresses, Texts{"10.0.2.15"});
  EXPECT_EQ(virtio.nic("ens3").networks, Texts{"10.0.2.0/24"});

  RecordedMachine google("google-gvnic");
  google.expect("ens4", NicKind::kTcp, true, "TCP, up, Google gVNIC");
  EXPECT_EQ(google.nic("ens4").mtu, 1460);
  EXPECT_EQ(google.nic("ens4").routes, Texts{"0.0.0.0/0"});
  EXPECT_EQ(google.nic("ens4").addresses, Texts{"10.128.0.2"}) << "an address without a network";
}

TEST(Recorded, EfaIsNotTakenForRoce) {
  RecordedMachine host("aws-efa");
  EXPECT_EQ(host.used(), "ens5");
  host.expect("ens5", NicKind::kTcp, true, "AWS ENA");
  host.expect("rdmap16s27/1", NicKind::kTcp, false, "EFA, which has no reliable connections");
  EXPECT_EQ(host.nic("rdmap16s27/1").rate_bits_per_second, 100'000'000'000U);
  EXPECT_EQ(host.nic("ens5").rdma_device, "");
}

TEST(Recorded, AzuresSyntheticNicStandsForItsAcceleratedHalf) {
  RecordedMachine host("azure-accelerated");
  EXPECT_EQ(host.used(), "ib0 eth0");
  host.expect("eth0", NicKind::kTcp, true, "TCP at 40 Gbit/s, Hyper-V or Azure synthetic NIC");
  EXPECT_EQ(host.nic("eth0").driver, "hv_netvsc");
  EXPECT_NE(host.nic("eth0").pci_path.find("a01f:00:02.0"), std::string::npos)
      << "where its accelerated half is";
  host.expect("enP40991s1", NicKind::kRoce, false, "the accelerated half of eth0");
  host.expect("ib0", NicKind::kInfiniBand, true, "InfiniBand at 200 Gbit/s");
  EXPECT_EQ(host.nic("ib0").role, NicRole::kVirtualFunction);
  EXPECT_EQ(host.nic("ib0").numa_node, 1);
}

TEST(Recorded, ManasRawPacketPortIsNeitherInfiniBandNorRoce) {
  RecordedMachine host("azure-mana");
  EXPECT_EQ(host.used(), "eth0");
  host.expect("eth0", NicKind::kTcp, true, "TCP at 100 Gbit/s");
  const Nic& half = host.nic("enP30832s1");
  EXPECT_FALSE(half.usable);
  EXPECT_NE(half.kind, NicKind::kInfiniBand);
}

TEST(Recorded, IwarpIsFoundOnItsPortsByHardwareAddress) {
  RecordedMachine host("iwarp");
  EXPECT_EQ(host.used(), "ens1f4 ens2f0");
  host.expect("ens1f4", NicKind::kIwarp, true, "iWARP at 100 Gbit/s");
  EXPECT_EQ(host.nic("ens1f4").rdma_device, "cxgb4_0");
  EXPECT_EQ(host.nic("ens1f4").gids.at(0).value, "0007:4312:3450:0000:0000:0000:0000:0000");
  EXPECT_FALSE(host.nic("ens1f4").roce_v1);
  host.expect("ens1f4d1", NicKind::kIwarp, false, "disabled in the device");
  EXPECT_EQ(host.nic("ens1f4d1").rdma_port, 2);
  host.expect("ens2f0", NicKind::kIwarp, true, "iWARP at 100 Gbit/s");
  EXPECT_EQ(host.nic("ens2f0").rdma_device, "iwp94s0f0");
}

TEST(Recorded, WithNothingElseThereIsLoopback) {
  RecordedMachine host("loopback");
  EXPECT_EQ(host.used(), "lo");
  host.expect("lo", NicKind::kTcp, true, "it reaches only ranks on this machine");
  EXPECT_EQ(host.nic("lo").addresses, (Texts{"127.0.0.1", "::1"}));
}

TEST(Recorded, EveryMachineMakesAClusterFileThatReadsBack) {
  int machines = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TOMBOLO_SOURCE_DIR "/topology/recorded")) {
    SCOPED_TRACE(entry.path().string());
    RecordedMachine host(entry.path().stem().string());
    ClusterFile file;
    file.hosts.push_back(to_host(host.machine));
    file.hosts[0].cluster = "A";
    EXPECT_FALSE(file.hosts[0].nics.empty());
    auto read = ClusterFile::parse(JsonDocument::parse(file.to_json().dump(1), "recorded"));
    EXPECT_EQ(read.to_json(), file.to_json());
    for (const Nic& nic : host.machine.nics) EXPECT_FALSE(nic.reason.empty()) << nic.name;
    ++machines;
  }
  EXPECT_GE(machines, 15);
}

}  // namespace
}  // namespace tombolo::topology
