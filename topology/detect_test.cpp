#include "topology/detect.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>
#include <random>

#include "base/randomized_test.h"
#include "topology/system/interfaces_kernel.h"
#include "topology/system/locality.h"
#include "topology/system/nvml_library.h"
#include "topology/system/verbs_library.h"
#include "topology/testing/recorded_tree.h"

namespace tombolo::topology {
namespace {

class Detect : public ::testing::Test {
 protected:
  Machine machine() { return detect({.root = tree_.root(), .live = false, .log = {}}); }
  Nic nic(const std::string& name) {
    std::string known;
    for (const Nic& one : machine().nics) {
      if (one.name == name) return one;
      known += one.name + " ";
    }
    ADD_FAILURE() << "no NIC " << name << " among " << known;
    return {};
  }
  void expect_reason(const Nic& one, bool usable, std::string_view part) {
    EXPECT_EQ(one.usable, usable) << one.name << ": " << one.reason;
    EXPECT_NE(one.reason.find(part), std::string::npos) << one.name << ": " << one.reason;
  }
  RecordedTree tree_;
};

TEST_F(Detect, RecognisesAnInfiniBandPortAndItsInterface) {
  auto pci = tree_.pci("0000:18:00.0", "mlx5_core", 1);
  tree_.interface("ib0", pci, {{"type", "32"}, {"mtu", "4092"}, {"speed", "200000"}});
  tree_.rdma("mlx5_0", pci, 1);
  Nic ib = nic("ib0");
  EXPECT_EQ(ib.kind, NicKind::kInfiniBand);
  EXPECT_EQ(ib.rdma_device, "mlx5_0");
  EXPECT_EQ(ib.rdma_port, 1);
  EXPECT_EQ(ib.state, NicState::kUp);
  EXPECT_EQ(ib.rate_bits_per_second, 200'000'000'000U);
  EXPECT_EQ(ib.mtu, 4092);
  EXPECT_EQ(ib.driver, "mlx5_core");
  EXPECT_EQ(ib.numa_node, 1);
  EXPECT_EQ(ib.pci_path, "/sys/devices/pci0000:17/0000:18:00.0");
  ASSERT_EQ(ib.gids.size(), 1U) << "an empty slot of the table is no GID";
  EXPECT_EQ(ib.gids[0].value, "fe80:0000:0000:0000:b859:9f03:00c3:ab60");
  EXPECT_EQ(ib.fabric, "infiniband-fe80:0000:0000:0000");
  expect_reason(ib, true, "InfiniBand at 200 Gbit/s");
}

TEST_F(Detect, TakesAnInfiniBandPortWithoutAnInterface) {
  auto pci = tree_.pci("0000:18:00.0", "mlx5_core");
  tree_.rdma("mlx5_0", pci, 1, {{"rate", "2.5 Gb/sec (1X SDR)"}});
  Nic ib = nic("mlx5_0/1");
  EXPECT_EQ(ib.rate_bits_per_second, 2'500'000'000U);
  expect_reason(ib, true, "without an IP interface");
}

TEST_F(Detect, TellsWhyAnInfiniBandPortIsNotReady) {
  auto pci = tree_.pci("0000:18:00.0", "mlx5_core");
  tree_.interface("ib0", pci, {{"type", "32"}});
  tree_.rdma("mlx5_0", pci, 1, {{"state", "2: INIT"}});
  tree_.rdma("mlx5_1", tree_.pci("0000:18:00.1", "mlx5_core"), 1,
             {{"state", "1: DOWN"}, {"phys_state", "3: Disabled"}});
  tree_.rdma("mlx5_2", tree_.pci("0000:19:00.0", "mlx5_core"), 1,
             {{"state", "1: DOWN"}, {"phys_state", "2: Polling"}});
  expect_reason(nic("ib0"), false, "opensm");
  expect_reason(nic("mlx5_1/1"), false, "disabled in the device");
  expect_reason(nic("mlx5_2/1"), false, "DOWN (physically Polling); check the cable");
  EXPECT_EQ(nic("ib0").state, NicState::kDown);
}

TEST_F(Detect, TellsRoceVersionsByTheTypesOfTheGids) {
  auto pci = tree_.pci("0000:3b:00.0", "mlx5_core");
  tree_.interface("ens3f0", pci, {{"mtu", "9000"}});
  tree_.rdma("mlx5_0", pci, 1,
             {{"link_layer", "Ethernet"},
              {"rate", "100 Gb/sec (4X EDR)"},
              {"gid_attrs/ndevs/0", "ens3f0"},
              {"gids/1", "fe80:0000:0000:0000:b859:9f03:00c3:ab60"},
              {"gid_attrs/types/1", "RoCE v2"},
              {"gids/3", "0000:0000:0000:0000:0000:ffff:0a02:000a"},
              {"gid_attrs/types/3", "RoCE v2"}});
  Nic roce = nic("ens3f0");
  EXPECT_EQ(roce.kind, NicKind::kRoce);
  EXPECT_TRUE(roce.roce_v1);
  EXPECT_TRUE(roce.roce_v2);
  ASSERT_EQ(roce.gids.size(), 3U);
  EXPECT_EQ(roce.gids[2].index, 3);
  EXPECT_EQ(roce.gids[2].type, "RoCE v2");
  EXPECT_EQ(roce.mtu, 9000);
  EXPECT_EQ(roce.fabric, "") << "the only way out of the host is on the network that all share";
  expect_reason(roce, true, "RoCE v1 and v2 at 100 Gbit/s");
  tree_.interface("eno1", tree_.pci("0000:01:00.0", "igb"), {{"speed", "1000"}});
  EXPECT_EQ(nic("ens3f0").fabric, "roce");
  EXPECT_EQ(nic("eno1").fabric, "");
}

TEST_F(Detect, TakesRoceWithoutTypesForVersionOne) {
  auto pci = tree_.pci("0000:3b:00.0", "mlx4_core");
  tree_.interface("ens3", pci);
  auto base = tree_.rdma("mlx4_0", pci, 1, {{"link_layer", "Ethernet"}});
  std::filesystem::remove_all(tree_.root() / (base.substr(1) + "/ports/1/gid_attrs"));
  Nic roce = nic("ens3");
  EXPECT_TRUE(roce.roce_v1);
  EXPECT_FALSE(roce.roce_v2);
}

TEST_F(Detect, FindsSoftRoceByItsParent) {
  auto pci = tree_.pci("0000:00:03.0", "virtio-pci");
  tree_.interface("eth0", pci);
  tree_.folder("/sys/devices/virtual");
  auto base = tree_.rdma("rxe0", "/sys/devices/virtual", 1,
                         {{"link_layer", "Ethernet"}, {"gid_attrs/types/0", "RoCE v2"}});
  tree_.file(base + "/parent", "eth0");
  Nic roce = nic("eth0");
  EXPECT_EQ(roce.rdma_device, "rxe0");
  EXPECT_EQ(roce.kind, NicKind::kRoce);
}

TEST_F(Detect, TellsTwoPortsOfOneFunctionApart) {
  auto pci = tree_.pci("0000:3b:00.0", "mlx4_core");
  tree_.interface("ib0", pci, {{"type", "32"}, {"dev_port", "0"}});
  tree_.interface("ib1", pci, {{"type", "32"}, {"dev_port", "1"}});
  tree_.rdma("mlx4_0", pci, 1);
  tree_.rdma("mlx4_0", pci, 2, {{"rate", "56 Gb/sec (4X FDR)"}});
  EXPECT_EQ(nic("ib0").rdma_port, 1);
  EXPECT_EQ(nic("ib1").rdma_port, 2);
  EXPECT_EQ(nic("ib1").rate_bits_per_second, 56'000'000'000U);
}

TEST_F(Detect, RecognisesIwarp) {
  auto pci = tree_.pci("0000:5e:00.0", "irdma");
  tree_.interface("ens5", pci);
  tree_.rdma("irdma0", pci, 1,
             {{"node_type", "4: RNIC"}, {"link_layer", "Ethernet"}, {"rate", "25 Gb/sec (1X EDR)"}});
  Nic iwarp = nic("ens5");
  EXPECT_EQ(iwarp.kind, NicKind::kIwarp);
  EXPECT_FALSE(iwarp.roce_v1);
  expect_reason(iwarp, true, "iWARP at 25 Gbit/s");
}

TEST_F(Detect, LeavesAnInterfaceToTcpWhereItsRdmaIsOfAnotherSort) {
  auto pci = tree_.pci("0000:5e:00.0", "efa");
  tree_.interface("ens5", tree_.pci("0000:5f:00.0", "ena"), {{"speed", "100000"}});
  tree_.interface("ens6", pci);
  tree_.rdma("efa_0", pci, 1, {{"node_type", "7: unspecified"}, {"link_layer", "Unspecified"}});
  tree_.rdma("strange_0", tree_.pci("0000:61:00.0", "strange"), 1, {{"node_type", "7: unspecified"}});
  tree_.rdma("odd_0", tree_.pci("0000:60:00.0", "odd"), 1, {{"link_layer", "Carrier pigeon"}});
  EXPECT_EQ(nic("ens5").kind, NicKind::kTcp);
  expect_reason(nic("ens6"), true, "efa_0 is AWS's EFA, which has no reliable connections");
  expect_reason(nic("strange_0/1"), false, "an RDMA device of type \"unspecified\"");
  EXPECT_EQ(nic("ens6").kind, NicKind::kTcp);
  expect_reason(nic("odd_0/1"), false, "\"Carrier pigeon\" is neither InfiniBand nor Ethernet");
}

TEST_F(Detect, UsesABondAndNotItsMembers) {
  auto first = tree_.interface("eno1", tree_.pci("0000:01:00.0", "i40e"), {{"speed", "10000"}});
  auto second = tree_.interface("eno2", tree_.pci("0000:01:00.1", "i40e"), {{"speed", "10000"}});
  auto bond = tree_.interface("bond0", "", {{"speed", "20000"}, {"uevent", "DEVTYPE=bond\nINTERFACE=bond0"}});
  tree_.file(bond + "/bonding/mode", "802.3ad 4");
  for (const auto& [name, base] : {std::pair{"eno1", first}, std::pair{"eno2", second}}) {
    tree_.link(base + "/master", bond);
    tree_.link(bond + "/lower_" + name, base);
  }
  EXPECT_EQ(nic("bond0").role, NicRole::kBond);
  EXPECT_EQ(nic("bond0").rate_bits_per_second, 20'000'000'000U);
  expect_reason(nic("bond0"), true, "bond of eno1 and eno2");
  expect_reason(nic("eno1"), false, "belongs to bond bond0, which carries its traffic");
}

TEST_F(Detect, JoinsRoceWithTheBondOnIt) {
  auto pci = tree_.pci("0000:3b:00.0", "mlx5_core");
  auto slave = tree_.interface("ens3f0", pci);
  auto bond = tree_.interface("bond0", "", {{"uevent", "DEVTYPE=bond"}});
  tree_.folder(bond + "/bonding");
  tree_.link(slave + "/master", bond);
  tree_.link(bond + "/lower_ens3f0", slave);
  tree_.rdma("mlx5_bond_0", pci, 1, {{"link_layer", "Ethernet"}, {"gid_attrs/ndevs/0", "bond0"}});
  EXPECT_EQ(nic("bond0").kind, NicKind::kRoce);
  expect_reason(nic("bond0"), true, "bond of ens3f0");
}

TEST_F(Detect, UsesEthernetForTcpWhereItsRdmaPortDoesNotWork) {
  auto pci = tree_.pci("0000:3b:00.0", "mlx5_core");
  tree_.interface("ens3", pci, {{"speed", "100000"}});
  tree_.rdma("mlx5_0", pci, 1,
             {{"link_layer", "Ethernet"}, {"state", "1: DOWN"}, {"phys_state", "3: Disabled"}});
  expect_reason(nic("ens3"), true, "TCP at 100 Gbit/s (without roce of mlx5_0: the port is disabled");
  EXPECT_EQ(nic("ens3").kind, NicKind::kTcp);
  EXPECT_EQ(nic("ens3").rdma_device, "mlx5_0") << "the doctor says what it lacks";
  auto bare = tree_.pci("0000:3c:00.0", "mlx5_core");
  tree_.interface("ens4", bare, {{"speed", "100000"}});
  tree_.rdma("mlx5_1", bare, 1,
             {{"link_layer", "Ethernet"}, {"gids/0", "0000:0000:0000:0000:0000:0000:0000:0000"}});
  expect_reason(nic("ens4"), true, "without roce of mlx5_1: its RDMA port has no GID");
}

TEST_F(Detect, UsesIpOverInfiniBandWhereOnlyItsVerbsAreMissing) {
  auto pci = tree_.pci("0000:18:00.0", "mlx5_core");
  tree_.interface("ib0", pci,
                  {{"type", "32"},
                   {"speed", "200000"},
                   {"address", "00:00:10:87:fe:80:00:00:00:00:00:07:b8:59:9f:03:00:c3:ab:60"}});
  tree_.rdma("mlx5_0", pci, 1, {{"gids/0", "0000:0000:0000:0000:0000:0000:0000:0000"}});
  expect_reason(nic("ib0"), true,
                "TCP at 200 Gbit/s (without infiniband of mlx5_0: its RDMA port has no GID");
  EXPECT_EQ(nic("ib0").kind, NicKind::kTcp);
  EXPECT_EQ(nic("ib0").fabric, "infiniband-fe80:0000:0000:0007") << "not the Ethernet that all share";
}

TEST_F(Detect, NamesTheSecondDeviceOfABondThatIsNoCardsOwn) {
  auto bond = tree_.interface("bond0", "", {{"uevent", "DEVTYPE=bond"}, {"speed", "50000"}});
  tree_.folder(bond + "/bonding");
  for (const char* name : {"mlx5_0", "mlx5_1"}) {
    auto pci = tree_.pci(name == std::string("mlx5_0") ? "0000:3b:00.0" : "0000:5b:00.0", "mlx5_core");
    tree_.rdma(name, pci, 1, {{"link_layer", "Ethernet"}, {"gid_attrs/ndevs/0", "bond0"}});
  }
  EXPECT_EQ(nic("bond0").rdma_device, "mlx5_0");
  expect_reason(nic("mlx5_1/1"), false, "its interface bond0 has an RDMA device already");
}

TEST_F(Detect, UsesAnInterfaceThatAVrfGroups) {
  auto port = tree_.interface("eno1", tree_.pci("0000:01:00.0", "igb"), {{"speed", "1000"}});
  auto group = tree_.interface("blue", "", {{"uevent", "DEVTYPE=vrf"}});
  tree_.link(port + "/master", group);
  expect_reason(nic("eno1"), true, "TCP at 1 Gbit/s, in VRF blue");
  expect_reason(nic("blue"), false, "virtual (VRF)");
}

TEST_F(Detect, NamesTheFabricOfRoceVersionOneByItsNetwork) {
  auto pci = tree_.pci("0000:3b:00.0", "mlx4_core");
  tree_.interface("ens3", pci);
  tree_.rdma("mlx4_0", pci, 1, {{"link_layer", "Ethernet"}, {"gid_attrs/ndevs/0", "ens3"}});
  tree_.interface("eno1", tree_.pci("0000:01:00.0", "igb"), {{"speed", "1000"}});
  tree_.file("/proc/net/route",
             "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
             "ens3\t0000020A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0");
  EXPECT_EQ(nic("ens3").networks, std::vector<std::string>{"10.2.0.0/24"});
  EXPECT_EQ(nic("ens3").fabric, "roce-10.2.0.0/24") << "no router passes it";
}

TEST_F(Detect, UsesAVlanAtTheRateOfWhatItLiesOn) {
  auto lower = tree_.interface("eno1", tree_.pci("0000:01:00.0", "i40e"), {{"speed", "25000"}});
  auto vlan = tree_.interface("eno1.100", "", {{"uevent", "DEVTYPE=vlan\nINTERFACE=eno1.100"}});
  tree_.link(vlan + "/lower_eno1", lower);
  EXPECT_EQ(nic("eno1.100").role, NicRole::kVlan);
  EXPECT_EQ(nic("eno1.100").rate_bits_per_second, 25'000'000'000U);
  expect_reason(nic("eno1.100"), true, "VLAN on eno1");
}

TEST_F(Detect, KnowsAVirtualFunctionByItsParent) {
  auto parent = tree_.pci("0000:3b:00.0", "mlx5_core");
  auto function = tree_.pci("0000:3b:00.2", "mlx5_core");
  tree_.link(function + "/physfn", parent);
  tree_.interface("ens3v0", function, {{"speed", "100000"}});
  EXPECT_EQ(nic("ens3v0").role, NicRole::kVirtualFunction);
  expect_reason(nic("ens3v0"), true, "virtual function of 0000:3b:00.0");
}

TEST_F(Detect, FindsThePciFunctionAboveAVirtioDevice) {
  auto pci = tree_.pci("0000:00:03.0", "virtio-pci", -1);
  tree_.link(pci + "/virtio2/driver", "/sys/bus/virtio/drivers/virtio_net");
  tree_.interface("eth0", pci + "/virtio2");
  Nic virtio = nic("eth0");
  EXPECT_EQ(virtio.pci_path, "/sys/devices/pci0000:17/0000:00:03.0");
  EXPECT_EQ(virtio.driver, "virtio_net");
  EXPECT_EQ(virtio.numa_node, std::nullopt) << "-1 is no node";
  EXPECT_EQ(virtio.rate_bits_per_second, 0U) << "-1 is no speed";
  EXPECT_TRUE(virtio.usable);
}

TEST_F(Detect, LeavesVirtualInterfacesAsideWhereThereIsHardware) {
  tree_.interface("eno1", tree_.pci("0000:01:00.0", "igb"), {{"speed", "1000"}});
  tree_.interface("lo", "", {{"type", "772"}, {"flags", "0x9"}, {"operstate", "unknown"}});
  tree_.interface("veth12", "", {{"iflink", "99"}, {"speed", "10000"}});
  tree_.interface("dummy0", "", {{"operstate", "unknown"}});
  auto tun = tree_.interface("tun0", "", {{"type", "65534"}, {"operstate", "unknown"}, {"speed", "10"}});
  tree_.file(tun + "/tun_flags", "0x1001");
  tree_.interface("wg0", "", {{"type", "65534"}, {"operstate", "unknown"}, {"uevent", "DEVTYPE=wireguard"}});
  tree_.interface("sit0", "", {{"type", "776"}, {"operstate", "unknown"}});
  auto docker = tree_.interface("docker0", "", {{"uevent", "DEVTYPE=bridge"}});
  tree_.folder(docker + "/bridge");
  expect_reason(nic("eno1"), true, "TCP at 1 Gbit/s");
  expect_reason(nic("lo"), false, "loopback");
  expect_reason(nic("veth12"), false, "virtual (veth pair)");
  EXPECT_EQ(nic("veth12").rate_bits_per_second, 0U) << "veth's 10 Gbit/s is no fact";
  expect_reason(nic("dummy0"), false, "virtual (dummy)");
  expect_reason(nic("tun0"), false, "TUN/TAP tunnel");
  expect_reason(nic("wg0"), false, "WireGuard tunnel");
  expect_reason(nic("sit0"), false, "tunnel");
  EXPECT_EQ(nic("sit0").role, NicRole::kTunnel);
  EXPECT_EQ(nic("docker0").role, NicRole::kContainerBridge);
  expect_reason(nic("docker0"), false, "for containers or virtual machines");
  EXPECT_EQ(machine().nics.front().name, "eno1");
}

TEST_F(Detect, UsesTheBridgeThatAPhysicalPortBelongsTo) {
  auto bridge = tree_.interface("br0", "", {{"uevent", "DEVTYPE=bridge"}});
  tree_.folder(bridge + "/bridge");
  auto port = tree_.interface("eno1", tree_.pci("0000:01:00.0", "igb"), {{"speed", "1000"}});
  tree_.link(port + "/master", bridge);
  tree_.folder(bridge + "/brif/eno1");
  expect_reason(nic("br0"), true, "bridge over eno1");
  EXPECT_EQ(nic("br0").rate_bits_per_second, 1'000'000'000U);
  expect_reason(nic("eno1"), false, "belongs to bridge br0, which carries its traffic");
}

TEST_F(Detect, TellsWhyAnInterfaceIsDown) {
  auto pci = tree_.pci("0000:01:00.0", "igb");
  tree_.interface("eno1", pci, {{"operstate", "down"}, {"flags", "0x1002"}});
  tree_.interface("eno2", pci, {{"operstate", "down"}, {"flags", "0x1003"}});
  expect_reason(nic("eno1"), false, "ip link set eno1 up");
  expect_reason(nic("eno2"), false, "check the cable");
  EXPECT_EQ(nic("eno2").state, NicState::kDown);
}

TEST_F(Detect, UsesWhatIsVirtualWhereNothingElseIs) {
  tree_.interface("lo", "", {{"type", "772"}, {"flags", "0x9"}, {"operstate", "unknown"}});
  expect_reason(nic("lo"), true, "used because nothing else is here");
  tree_.interface("eth0", "", {{"iflink", "99"}});
  expect_reason(nic("eth0"), true, "veth pair: used because nothing better is here");
  expect_reason(nic("lo"), false, "loopback");
}

TEST_F(Detect, PutsTheBestFirst) {
  tree_.interface("eno1", tree_.pci("0000:01:00.0", "igb"), {{"speed", "1000"}});
  tree_.interface("eno2", tree_.pci("0000:01:00.1", "igb"), {{"speed", "25000"}});
  auto roce = tree_.pci("0000:3b:00.0", "mlx5_core");
  tree_.interface("ens3", roce);
  tree_.rdma("mlx5_1", roce, 1, {{"link_layer", "Ethernet"}});
  tree_.rdma("mlx5_0", tree_.pci("0000:18:00.0", "mlx5_core"), 1);
  std::string names;
  for (const Nic& one : to_host(machine()).nics) names += one.name + " ";
  EXPECT_EQ(names, "mlx5_0/1 ens3 eno2 eno1 ");
}

TEST_F(Detect, FindsGpusOnThePciBus) {
  auto gpu = tree_.pci("0000:1b:00.0", "nvidia", 1);
  tree_.file(gpu + "/class", "0x030200");
  tree_.file(gpu + "/vendor", "0x10de");
  tree_.file(gpu + "/device", "0x2335");
  auto other = tree_.pci("0000:03:00.0", "ast");  // a management controller's display
  tree_.file(other + "/class", "0x030000");
  tree_.file(other + "/vendor", "0x1a03");
  auto audio = tree_.pci("0000:1b:00.1", "snd");
  tree_.file(audio + "/class", "0x040300");
  tree_.file(audio + "/vendor", "0x10de");
  auto found = machine().gpus;
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "NVIDIA GPU 0x2335");
  EXPECT_EQ(found[0].kind, DeviceKind::kGpu);
  EXPECT_EQ(found[0].numa_node, 1);
  EXPECT_EQ(found[0].pci_path, "/sys/devices/pci0000:17/0000:1b:00.0");
  EXPECT_EQ(to_host(machine()).devices.at(0).name, "NVIDIA GPU 0x2335");
}

TEST_F(Detect, DescribesTheMachineAround) {
  Machine found = machine();
  EXPECT_EQ(found.host_name, "recorded");
  EXPECT_EQ(found.cores, 5);
  EXPECT_EQ(found.numa_nodes, 2);
  EXPECT_EQ(found.memory_bytes, 16384U * 1024);
  EXPECT_TRUE(found.nics.empty());
  Host host = to_host(found);
  ASSERT_EQ(host.devices.size(), 1U);
  EXPECT_EQ(host.devices[0].kind, DeviceKind::kCpu);
}

TEST_F(Detect, NamesARootThatCannotBeRead) {
  try {
    detect({.root = tree_.root() / "none", .live = false, .log = {}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
    EXPECT_NE(std::string(error.what()).find("none: cannot read that folder"), std::string::npos)
        << error.what();
  }
}

TEST_F(Detect, WritesAClusterFileThatReadsBack) {
  auto pci = tree_.pci("0000:18:00.0", "mlx5_core", 1);
  tree_.interface("ib0", pci, {{"type", "32"}, {"mtu", "4092"}});
  tree_.rdma("mlx5_0", pci, 1);
  tree_.interface("eno1", tree_.pci("0000:01:00.0", "igb"), {{"speed", "1000"}});
  ClusterFile file;
  file.hosts.push_back(to_host(machine()));
  file.hosts[0].cluster = "A";
  auto read = ClusterFile::parse(JsonDocument::parse(file.to_json().dump(1), "x"));
  EXPECT_EQ(read.to_json(), file.to_json());
  EXPECT_EQ(read.hosts[0].nics.size(), 2U);
}

// The tree may be of a strange kernel, half copied, or hostile: the answer is always a list of NICs.
TEST_F(Detect, LivesWithAnyContents) {
  auto pci = tree_.pci("0000:18:00.0", "mlx5_core");
  tree_.interface("ib0", pci, {{"type", "32"}});
  tree_.rdma("mlx5_0", pci, 1);
  auto bridge = tree_.interface("br0", "", {{"uevent", "DEVTYPE=bridge"}});
  tree_.folder(bridge + "/brif/ib0");
  tree_.folder("/sys/class/infiniband/empty");
  tree_.folder("/sys/class/infiniband/odd/ports/x");
  tree_.folder("/sys/class/infiniband/odd/ports/99999999999999999999");
  tree_.folder("/sys/class/net/bare");
  tree_.file("/sys/class/net/bonding_masters", "bond0");
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(tree_.root())) {
    if (entry.is_regular_file() && !entry.is_symlink()) files.push_back(entry.path());
  }
  ASSERT_GT(files.size(), 20U);
  std::filesystem::create_symlink("nowhere", tree_.root() / "sys/class/net/dangling");
  std::filesystem::create_symlink("/etc", tree_.root() / "sys/class/net/outside");
  std::filesystem::create_symlink("loop", tree_.root() / "sys/class/net/loop");
  ASSERT_EQ(::mkfifo((tree_.root() / "sys/class/net/bare/mtu").c_str(), 0600), 0)
      << "reading it must not block";

  std::mt19937 random(test_seed());
  auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  const std::vector<std::string> contents{"",
                                          "-1",
                                          "0x",
                                          "99999999999999999999",
                                          "1e99",
                                          "\x01\xff\n\n",
                                          ": ",
                                          "4:",
                                          std::string(100000, '7'),
                                          "nan Gb/sec",
                                          "inf",
                                          "772",
                                          "32",
                                          "DEVTYPE=",
                                          "Ethernet",
                                          "fe80::1",
                                          std::string(39, 'f'),
                                          std::string(5, '\0')};
  for (int round = 0; round < test_rounds(300); ++round) {
    std::ofstream(files[below(files.size())], std::ios::trunc) << contents[below(contents.size())];
    Machine found = machine();
    EXPECT_NO_THROW(to_json(found).dump());
    for (const Nic& one : found.nics) {
      EXPECT_FALSE(one.reason.empty()) << one.name;
      EXPECT_GE(one.mtu, 0);
    }
  }
}

TEST(DetectHere, FindsThisMachinesInterfacesWithAddresses) {
  Machine machine = detect({});
  EXPECT_GE(machine.cores, 1);
  EXPECT_GE(machine.numa_nodes, 1);
  EXPECT_GT(machine.memory_bytes, 0U);
  KernelInterfaces kernel;
  EXPECT_GE(machine.nics.size(), kernel.list().size());
  for (const Nic& nic : machine.nics) EXPECT_FALSE(nic.reason.empty()) << nic.name;
  for (const auto& listed : kernel.list()) {
    const std::string& name = listed.first;  // clang 14 captures no structured bindings
    auto found = std::find_if(machine.nics.begin(), machine.nics.end(),
                              [&](const Nic& nic) { return nic.name == name; });
    ASSERT_NE(found, machine.nics.end()) << name;
    EXPECT_EQ(found->addresses, kernel.addresses(name));
    EXPECT_GT(found->mtu, 0) << name;
  }
}

TEST(DetectHere, TakesTheHostFromTheClusterFileAndFillsInItsAddress) {
  RecordedTree folder;
  std::string path = folder.root() / "cluster.json";
  write_json_file(path, Json::parse(R"({"tombolo_cluster": 1, "hosts": [
    {"name": "h0", "cluster": "A", "nics": [{"name": "lo", "kind": "infiniband", "emulated": true, "rate_gbps": 40},
                                            {"name": "elsewhere", "kind": "tcp", "address": "192.0.2.9"}], "devices": []},
    {"name": "h1", "cluster": "B", "nics": [], "devices": []}]})"));
  ::setenv("TOMBOLO_CLUSTER", path.c_str(), 1);
  ::setenv("TOMBOLO_HOST", "h0", 1);
  Host host = local_host({});
  EXPECT_EQ(host.name, "h0");
  EXPECT_EQ(host.cluster, "A");
  ASSERT_EQ(host.nics.size(), 2U);
  EXPECT_EQ(host.nics[0].kind, NicKind::kInfiniBand);
  EXPECT_EQ(host.nics[0].addresses, KernelInterfaces().addresses("lo"));
  EXPECT_EQ(host.nics[1].addresses, std::vector<std::string>{"192.0.2.9"});
  ::setenv("TOMBOLO_HOST", "h9", 1);
  try {
    local_host({});
    ADD_FAILURE() << "h9 is no host there";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
    EXPECT_NE(std::string(error.what()).find("no host \"h9\" (TOMBOLO_HOST); it names h0, h1"),
              std::string::npos)
        << error.what();
  }
  ::unsetenv("TOMBOLO_HOST");
  ::unsetenv("TOMBOLO_CLUSTER");
  EXPECT_FALSE(local_host({}).name.empty());
}

TEST(DetectHere, ReadsPlacesWithHwlocWhereItIsInstalled) {
  std::string problem;
  auto locality = read_locality(&problem);
  if (!locality) GTEST_SKIP() << problem;
  EXPECT_GE(locality->numa_nodes, 1);
  for (const auto& [address, node] : locality->node_of_pci) EXPECT_GE(node, 0) << address;
}

TEST(DetectHere, AsksLibibverbsWhereItIsInstalled) {
  std::string problem;
  auto verbs = VerbsLibrary::load(&problem);
  if (!verbs) GTEST_SKIP() << problem;
  for (const auto& device : verbs->devices()) EXPECT_FALSE(device.name.empty());
}

TEST(Nvml, WritesPciAddressesAsTheKernelDoes) {
  EXPECT_EQ(pci_address_from_nvml("00000000:1B:00.0"), "0000:1b:00.0");
  EXPECT_EQ(pci_address_from_nvml("00010000:1B:00.0"), "00010000:1b:00.0");
  EXPECT_EQ(pci_address_from_nvml("0000:1B:00.0"), "0000:1b:00.0");
}

}  // namespace
}  // namespace tombolo::topology
