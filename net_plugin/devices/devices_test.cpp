#include "net_plugin/devices/devices.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "base/error.h"
#include "base/randomized_test.h"
#include "net_plugin/devices/pci_place.h"
#include "net_plugin/devices/properties.h"
#include "topology/detect.h"
#include "topology/testing/recorded_machine.h"
#include "topology/testing/recorded_tree.h"

namespace tombolo::net_plugin {
namespace {

using topology::NicKind;
using Names = std::vector<std::string>;

topology::Nic nic(const std::string& name, NicKind kind, double gigabits, const std::string& pci_path = {}) {
  topology::Nic made;
  made.name = name;
  made.kind = kind;
  made.rate_bits_per_second = static_cast<std::uint64_t>(gigabits * 1e9);
  made.addresses = {"10.0.0.1"};
  made.pci_path = pci_path;
  return made;
}

topology::Host host_with(std::vector<topology::Nic> nics) {
  topology::Host host;
  host.name = "a0";
  host.nics = std::move(nics);
  return host;
}

Names names_of(const std::vector<topology::Nic>& nics) {
  Names names;
  for (const topology::Nic& one : nics) names.push_back(one.name);
  return names;
}

Names names_of(const std::vector<NetDevice>& devices) {
  Names names;
  for (const NetDevice& one : devices) names.push_back(one.name);
  return names;
}

const std::vector<topology::Nic> kTwoRailsAndEthernet{nic("eth0", NicKind::kTcp, 10),
                                                      nic("ib0", NicKind::kInfiniBand, 200),
                                                      nic("ib1", NicKind::kInfiniBand, 400)};

TEST(NetDevices, MergedAreOneWithAllNicsAsFastAsTheBest) {
  auto devices = make_devices(host_with(kTwoRailsAndEthernet), DeviceMode::kMerged);
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_EQ(devices[0].name, "tombolo0");
  EXPECT_EQ(devices[0].speed_megabits, 400'000);
  EXPECT_EQ(names_of(devices[0].host.nics), (Names{"ib0", "ib1", "eth0"}));
  EXPECT_EQ(devices[0].standby, Names{});
}

TEST(NetDevices, EveryRdmaNicIsOneWithTheOthersStandingBy) {
  for (const DeviceMode mode : {DeviceMode::kAuto, DeviceMode::kPerNic}) {
    auto devices = make_devices(host_with(kTwoRailsAndEthernet), mode);
    ASSERT_EQ(names_of(devices), (Names{"ib0", "ib1"}));
    EXPECT_EQ(devices[0].speed_megabits, 200'000);
    EXPECT_EQ(devices[0].own, Names{"ib0"});
    EXPECT_EQ(devices[0].standby, (Names{"ib1", "eth0"}));
    EXPECT_EQ(devices[1].speed_megabits, 400'000);
    EXPECT_EQ(devices[1].own, Names{"ib1"});
    EXPECT_EQ(names_of(devices[1].host.nics), (Names{"ib1", "ib0", "eth0"}));
    EXPECT_NE(devices[0].guid, devices[1].guid);
    EXPECT_EQ(devices[1].parts, std::vector<int>{1});
  }
}

TEST(NetDevices, AutoTakesEveryRdmaKindAndPerNicTheBest) {
  const auto host = host_with({nic("ib0", NicKind::kInfiniBand, 200), nic("roce0", NicKind::kRoce, 100),
                               nic("iw0", NicKind::kIwarp, 100), nic("eth0", NicKind::kTcp, 100)});
  EXPECT_EQ(names_of(make_devices(host, DeviceMode::kAuto)), (Names{"ib0", "roce0"}));
  EXPECT_EQ(names_of(make_devices(host, DeviceMode::kPerNic)), (Names{"ib0"}));
}

TEST(NetDevices, OnAHostWithoutRdmaEveryConnectionUsesAllNics) {
  const auto host = host_with({nic("eth0", NicKind::kTcp, 25), nic("eth1", NicKind::kTcp, 100)});
  const auto devices = make_devices(host, DeviceMode::kAuto);
  ASSERT_EQ(names_of(devices), (Names{"eth0", "eth1"}));
  for (const NetDevice& device : devices) {
    EXPECT_EQ(device.standby, Names{}) << device.name;
    EXPECT_EQ(device.host.nics.size(), 2U) << device.name;
    EXPECT_EQ(device.own.front(), device.name);
  }
  EXPECT_EQ(devices[1].speed_megabits, 100'000);
  const auto per_nic = make_devices(host, DeviceMode::kPerNic);
  EXPECT_EQ(per_nic.at(0).standby, Names{"eth1"});
}

TEST(NetDevices, ANicTooSlowBesideTheBestIsNoDevice) {
  const auto host = host_with({nic("mgmt", NicKind::kTcp, 1), nic("eth0", NicKind::kTcp, 100)});
  EXPECT_EQ(names_of(make_devices(host, DeviceMode::kAuto)), Names{"eth0"});
  EXPECT_EQ(names_of(make_devices(host_with({nic("mgmt", NicKind::kTcp, 1)}), DeviceMode::kAuto)),
            Names{"mgmt"});
}

TEST(NetDevices, SpeedIsNcclsDefaultWhereItIsUnknown) {
  auto devices = make_devices(host_with({nic("lo", NicKind::kTcp, 0)}), DeviceMode::kAuto);
  EXPECT_EQ(devices.at(0).speed_megabits, 10'000);
  EXPECT_EQ(devices.at(0).pci_path, "");
}

TEST(NetDevices, APciPathThatThisMachineLacksIsLeftOut) {
  auto one = nic("ib0", NicKind::kInfiniBand, 200);
  one.pci_path = "/sys/devices/pci0000:17/0000:17:00.0/nothing-here";
  EXPECT_EQ(make_devices(host_with({one}), DeviceMode::kAuto).at(0).pci_path, "");
  one.pci_path = "/proc/self";
  EXPECT_EQ(make_devices(host_with({one}), DeviceMode::kAuto).at(0).pci_path, "/proc/self");
}

TEST(NetDevices, AHostWithoutAnAddressIsAnErrorThatNamesIt) {
  auto one = nic("ib0", NicKind::kInfiniBand, 200);
  one.addresses.clear();
  try {
    make_devices(host_with({one}), DeviceMode::kAuto);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("'a0'"), std::string::npos) << error.what();
  }
}

TEST(NetDevices, SpeedAndLatencyAreThoseOfMeasuredLinksInsideTheCluster) {
  topology::ClusterFile file;
  for (const char* name : {"a0", "a1", "b0"}) {
    topology::Host host = host_with(kTwoRailsAndEthernet);
    host.name = name;
    host.cluster = std::string(1, name[0]);
    file.hosts.push_back(host);
  }
  file.links = {{"a0", "ib0", "a1", "ib0", 20e9, 4e-6, true},
                {"a0", "ib0", "b0", "ib0", 1e9, 1e-3, true},    // another cluster
                {"a0", "ib1", "a1", "ib1", 60e9, 3e-6, true}};  // faster than it can be
  DeviceSources sources;
  sources.file = &file;
  auto devices = make_devices(file.hosts[0], DeviceMode::kAuto, sources);
  EXPECT_EQ(devices.at(0).speed_megabits, 160'000);
  EXPECT_FLOAT_EQ(devices.at(0).latency_microseconds, 4);
  EXPECT_EQ(devices.at(1).speed_megabits, 400'000);
  EXPECT_EQ(make_devices(file.hosts[2], DeviceMode::kAuto, sources).at(0).latency_microseconds, 0);
}

TEST(NetDevices, ARailIsAFabricOfTheCluster) {
  topology::ClusterFile file;
  for (const char* name : {"a0", "a1", "b0"}) {
    topology::Host host = host_with({nic("n0", NicKind::kRoce, 100), nic("n1", NicKind::kRoce, 100)});
    host.name = name;
    host.cluster = std::string(1, name[0]);
    host.nics[0].fabric = host.cluster + "-rail0";
    host.nics[1].fabric = host.cluster + "-rail1";
    file.hosts.push_back(host);
  }
  std::swap(file.hosts[1].nics[0], file.hosts[1].nics[1]);
  DeviceSources sources;
  sources.file = &file;
  const auto rails = [&](int host) {
    const auto devices = make_devices(file.hosts[static_cast<std::size_t>(host)], DeviceMode::kAuto, sources);
    return std::pair(devices.at(0).rail, devices.at(1).rail);
  };
  EXPECT_EQ(rails(0), std::pair(0, 1));
  EXPECT_EQ(rails(1), std::pair(1, 0));
  EXPECT_EQ(rails(2), std::pair(0, 1)) << "rails of another cluster pair with those of this one";
  EXPECT_EQ(make_devices(file.hosts[0], DeviceMode::kAuto).at(0).rail, -1) << "not known without a file";
  sources.environment = NcclEnvironment::read(
      [](const char* name) { return std::string_view(name) == "NCCL_IB_HCA" ? "n1::5:2" : nullptr; });
  EXPECT_EQ(rails(0), std::pair(0, 5));
}

TEST(NetDevices, AFabricThatNicsOfAHostShareIsNoRail) {
  topology::ClusterFile file;
  for (const char* name : {"a0", "a1", "b0"}) {
    topology::Host host = host_with({nic("n0", NicKind::kRoce, 100), nic("n1", NicKind::kRoce, 100)});
    host.name = name;
    host.cluster = std::string(1, name[0]);
    host.nics[0].fabric = "left";
    host.nics[1].fabric = "right";
    file.hosts.push_back(host);
  }
  DeviceSources sources;
  sources.file = &file;
  const auto rails = [&](std::size_t host) {
    const auto devices = make_devices(file.hosts[host], DeviceMode::kAuto, sources);
    return std::pair(devices.at(0).rail, devices.at(1).rail);
  };
  const auto add = [&](const char* name, const char* device) {
    topology::Nic third = nic(name, NicKind::kRoce, 100);
    third.fabric = "left";
    third.rdma_device = device;
    third.rdma_port = 1;
    file.hosts[1].nics.push_back(third);
  };
  EXPECT_EQ(rails(0), std::pair(0, 1));
  file.hosts[1].nics[0].rdma_device = "mlx5_0";
  file.hosts[1].nics[0].rdma_port = 1;
  add("n0.5", "mlx5_0");
  EXPECT_EQ(rails(0), std::pair(0, 1)) << "a VLAN of the port";
  add("n2", "mlx5_2");
  EXPECT_EQ(rails(0), std::pair(-1, 1)) << "also on the hosts that have one NIC there: alike on all";
  EXPECT_EQ(rails(2), std::pair(0, 1)) << "another cluster";
}

/// The devices of a recorded machine: "name@place port".
std::string recorded_devices(const std::string& machine, std::vector<NetDevice>* to = nullptr) {
  const topology::RecordedMachine recorded(machine);
  topology::Host host = topology::to_host(recorded.machine);
  for (topology::Nic& one : host.nics)
    if (one.addresses.empty()) one.addresses = {"10.0.0.1"};
  DeviceSources sources;
  sources.tree = topology::SysTree(topology::recorded_path(machine));
  auto devices = make_devices(host, DeviceMode::kAuto, sources);
  std::string text;
  for (const NetDevice& one : devices) {
    text += fmt::format("{}{}@{} {}", text.empty() ? "" : ", ", one.name,
                        one.pci_path.substr(one.pci_path.rfind('/') + 1), one.port);
  }
  if (to != nullptr) *to = std::move(devices);
  return text;
}

TEST(NetDevices, OfRecordedMachines) {
  const std::vector<std::pair<std::string, std::string>> machines = {
      {"infiniband-hdr", "ib0@0000:19:00.0 1"},
      {"roce-v2", "ens3f0np0@0000:41:00.0 1"},
      {"roce-vlan", "ens7np0.100@0000:5e:00.0 1"},
      {"roce-bond", "bond0@0000:5e:00.0 1"},
      {"sriov-host", "ens5f0np0@0000:c1:00.0 1"},
      {"sriov-guest", "ens5@0000:00:05.0 1"},
      {"dual-port",
       "ibp59s0f0@0000:3b:00.0 1, ib0@0000:86:00.0 1, enp59s0f1@0000:3b:00.0 1, enp134s0d1@0000:86:00.0 2"},
      {"gpu-server", "ib0@0000:19:00.0 1, ib1@0000:1e:00.0 1, ib2@0000:38:00.0 1, ib3@0000:9b:00.0 1"},
      {"iwarp", "ens1f4@0000:04:00.4 1, ens2f0@0000:5e:00.0 1"},
      {"virtio", "ens3@0000:00:03.0 0"},
      {"azure-accelerated", "ib0@0101:00:00.0 1"}};
  for (const auto& [machine, wanted] : machines) EXPECT_EQ(recorded_devices(machine), wanted) << machine;
}

TEST(PciPlace, IsThatOfThePhysicalFunctionAndOfTheCardsFirstPort) {
  topology::RecordedTree tree;
  const std::string first = tree.pci("0000:18:00.0", "mlx5_core"),
                    second = tree.pci("0000:18:00.1", "mlx5_core");
  const std::string function = tree.pci("0000:18:01.2", "mlx5_core");
  const std::string chipset = tree.pci("0000:00:1f.0", "lpc"), board = tree.pci("0000:00:1f.6", "e1000e");
  for (const auto& path : {first, second, function, board}) tree.file(path + "/class", "0x020000");
  tree.file(chipset + "/class", "0x060100");
  tree.link(function + "/physfn", first);
  const topology::SysTree read(tree.root());
  const auto place = [&](const std::string& path) {
    return pci_place(read, nic("n", NicKind::kTcp, 1, path));
  };
  EXPECT_EQ(place(first), first);
  EXPECT_EQ(place(second), first);
  EXPECT_EQ(place(function), first);
  EXPECT_EQ(place(board), board) << "its slot's first function is no NIC";
  EXPECT_EQ(place(""), "");
  EXPECT_EQ(place("/sys/devices/pci0000:17/0000:99:00.0"), "");
}

TEST(PciPlace, TheNodeGuidIsReadOrUnknown) {
  topology::RecordedTree tree;
  tree.file("/sys/class/infiniband/mlx5_0/node_guid", "b859:9f03:00c3:ab60");
  tree.file("/sys/class/infiniband/odd/node_guid", "b859:9f03:zz");
  const topology::SysTree read(tree.root());
  EXPECT_EQ(node_guid(read, "mlx5_0"), 0xb8599f0300c3ab60);
  EXPECT_EQ(node_guid(read, "odd"), 0U);
  EXPECT_EQ(node_guid(read, "none"), 0U);
}

std::vector<NetDevice> on_the_bus(const std::vector<topology::Nic>& nics) {
  auto devices = make_devices(host_with(nics), DeviceMode::kAuto);
  for (NetDevice& device : devices) device.pci_path = "/sys/devices/pci0000:17/" + device.name;
  return devices;
}

std::string refusal(DeviceList& list, const std::vector<int>& parts, std::size_t most = 4) {
  try {
    return fmt::format("device {}", list.fuse(parts, most));
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
    return error.what();
  }
}

TEST(FusedDevices, AreOneOfAllTheirNics) {
  DeviceList list(on_the_bus({nic("ib0", NicKind::kInfiniBand, 200), nic("ib1", NicKind::kInfiniBand, 200),
                              nic("ib2", NicKind::kInfiniBand, 200), nic("eth0", NicKind::kTcp, 10)}));
  const NetDevice& before = list.at(0);
  const int parts[] = {1, 0};
  EXPECT_EQ(list.fuse(parts, 4), 3);
  EXPECT_EQ(list.size(), 4U);
  const NetDevice& fused = list.at(3);
  EXPECT_EQ(&before, &list.at(0)) << "NCCL keeps pointers";
  EXPECT_EQ(fused.name, "ib1+ib0");
  EXPECT_EQ(fused.speed_megabits, 400'000);
  EXPECT_EQ(fused.pci_path, list.at(1).pci_path);
  EXPECT_EQ(fused.own, (Names{"ib1", "ib0"}));
  EXPECT_EQ(fused.standby, (Names{"ib2", "eth0"}));
  EXPECT_EQ(fused.host.nics.size(), 4U);
  EXPECT_EQ(list.fuse(parts, 4), 3) << "the same device when NCCL asks again";
}

TEST(FusedDevices, OfUnlikeTcpNicsAreMadeBecauseTheyStripeByRate) {
  DeviceList list(on_the_bus({nic("eth0", NicKind::kTcp, 100), nic("eth1", NicKind::kTcp, 25)}));
  EXPECT_EQ(refusal(list, {0, 1}), "device 2");
  EXPECT_EQ(list.at(2).speed_megabits, 125'000);
}

TEST(FusedDevices, AreRefusedWithTheReason) {
  auto devices = on_the_bus({nic("ib0", NicKind::kInfiniBand, 200), nic("ib1", NicKind::kInfiniBand, 400),
                             nic("ib2", NicKind::kInfiniBand, 200), nic("roce0", NicKind::kRoce, 200),
                             nic("ib3", NicKind::kInfiniBand, 200)});
  ASSERT_EQ(names_of(devices), (Names{"ib0", "ib1", "ib2", "ib3", "roce0"}));
  devices[3].pci_path.clear();
  DeviceList list(std::move(devices));
  ASSERT_EQ(refusal(list, {0, 2}), "device 5");
  const std::vector<std::pair<std::vector<int>, std::string>> cases = {
      {{}, "0 devices cannot be one: 1 to 4 can"},
      {{0, 1, 2, 3, 4}, "5 devices cannot be one"},
      {{0, 9}, "device 9 does not exist"},
      {{-1}, "device -1 does not exist"},
      {{0, 0}, "ib0 is there twice"},
      {{0, 3}, "ib3 is not on the PCI bus"},
      {{0, 4}, "ib0 is infiniband and roce0 is roce"},
      {{4, 5}, "ib0+ib2 is made of several already"},
  };
  for (const auto& [parts, why] : cases)
    EXPECT_NE(refusal(list, parts).find(why), std::string::npos) << refusal(list, parts) << " lacks " << why;
  EXPECT_EQ(list.size(), 6U);
}

TEST(DeviceList, RdmaNicsOfUnlikeRatesBecomeOneUnlessOneIsFarSlower) {
  auto devices = on_the_bus({nic("ib0", NicKind::kInfiniBand, 400), nic("ib1", NicKind::kInfiniBand, 100)});
  ASSERT_EQ(devices.size(), 2U);
  DeviceList list(devices);
  ASSERT_EQ(refusal(list, {0, 1}), "device 2");
  EXPECT_EQ(list.at(2).speed_megabits, 500'000);
  devices[1].host.nics.front().rate_bits_per_second = 30'000'000'000;
  DeviceList far_apart(std::move(devices));
  EXPECT_NE(refusal(far_apart, {0, 1}).find("of ib0 and ib1 one is less than a tenth as fast"),
            std::string::npos)
      << refusal(far_apart, {0, 1});
}

/// What NCCL's loader does with the devices of a plugin before it makes its graph: it takes devices in one
/// place on the PCI bus (and all that have none) for ports of one NIC, asks for one device of each such
/// group, goes on without where it is refused, and reads the list again.
template <typename Properties>
std::vector<Properties> as_nccl_loads(DeviceList& list) {
  std::vector<Properties> physical(list.size());
  for (std::size_t i = 0; i < physical.size(); ++i) fill(physical[i], list.at(static_cast<int>(i)), 1);
  std::vector<bool> placed(physical.size());
  std::set<int> gone;
  for (std::size_t i = 0; i < physical.size(); ++i) {
    if (placed[i]) continue;
    std::vector<int> group;
    for (std::size_t j = i; j < physical.size(); ++j) {
      const std::string here = physical[i].pciPath == nullptr ? "" : physical[i].pciPath;
      const std::string there = physical[j].pciPath == nullptr ? "" : physical[j].pciPath;
      if (placed[j] || here != there || group.size() == std::size(physical[i].vProps.devs)) continue;
      placed[j] = true;
      group.push_back(static_cast<int>(j));
    }
    if (group.size() < 2) continue;
    if (refusal(list, group, std::size(physical[i].vProps.devs)).starts_with("device "))
      gone.insert(group.begin(), group.end());
  }
  std::vector<Properties> left;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (gone.contains(static_cast<int>(i))) continue;
    Properties properties;
    fill(properties, list.at(static_cast<int>(i)), 1);
    left.push_back(properties);
  }
  return left;
}

TEST(FusedDevices, NcclsLoaderIsLeftWithEveryNic) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < test_rounds(300); ++round) {
    const auto below = [&](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
    std::vector<topology::Nic> nics;
    const int count = 1 + below(12);
    const bool rdma = below(2) == 0;
    for (int i = 0; i < count; ++i)
      nics.push_back(nic(fmt::format("n{}", i), rdma && below(4) != 0 ? NicKind::kRoce : NicKind::kTcp,
                         below(2) == 0 ? 100 : 200));
    auto devices = make_devices(host_with(nics), DeviceMode::kAuto);
    std::set<std::string> own, reached;
    for (NetDevice& device : devices) {
      own.insert(device.own.front());
      if (below(3) != 0) device.pci_path = fmt::format("/sys/devices/pci0000:00/0000:{:02x}:00.0", below(4));
    }
    DeviceList list(std::move(devices));
    const auto check = [&](auto properties) {
      for (const auto& one : as_nccl_loads<decltype(properties)>(list)) {
        EXPECT_GT(one.speed, 0);
        ASSERT_GE(one.vProps.ndevs, 1);
        ASSERT_LE(one.vProps.ndevs, static_cast<int>(std::size(one.vProps.devs)));
        for (int i = 0; i < one.vProps.ndevs; ++i) reached.insert(list.at(one.vProps.devs[i]).name);
        EXPECT_TRUE(one.vProps.ndevs == 1 || one.pciPath != nullptr);
      }
    };
    if (below(2) == 0)
      check(abi::ncclNetProperties_v9_t{});
    else
      check(abi::ncclNetProperties_v12_t{});
    EXPECT_EQ(reached, own) << "round " << round;
  }
}

TEST(Properties, AreTheDevices) {
  NetDevice device = on_the_bus({nic("ib0", NicKind::kInfiniBand, 200)}).front();
  device.port = 2;
  device.rail = 3;
  device.latency_microseconds = 1.5F;
  abi::ncclNetProperties_v12_t properties;
  fill(properties, device, 8);
  EXPECT_STREQ(properties.name, "ib0");
  EXPECT_EQ(properties.guid, device.guid);
  EXPECT_EQ(properties.port, 2);
  EXPECT_EQ(properties.maxRecvs, 8);
  EXPECT_EQ(properties.latency, 1.5F);
  EXPECT_EQ(properties.railId, 3);
  EXPECT_EQ(properties.planeId, -1);
  EXPECT_EQ(properties.vProps.ndevs, 1);
  EXPECT_EQ(properties.vProps.devs[0], 0);
  EXPECT_GE(properties.maxComms, 1);
  EXPECT_LE(properties.maxComms, kMaxComms);
  EXPECT_EQ(properties.regIsGlobal, 0);
}

TEST(Properties, SayThatMemoryIsGlobalWhereNothingIsRegisteredAndLongMessagesAreCut) {
  using transport::Overlong;
  const auto told = [](NicKind kind, Overlong overlong) {
    abi::ncclNetProperties_v8_t properties;
    fill(properties, on_the_bus({nic("n0", kind, 100)}).front(), 8, {}, overlong);
    return properties.regIsGlobal;
  };
  EXPECT_EQ(told(NicKind::kTcp, Overlong::kTruncate), 1);
  EXPECT_EQ(told(NicKind::kTcp, Overlong::kError), 0);
  EXPECT_EQ(told(NicKind::kRoce, Overlong::kTruncate), 0) << "RDMA registers, and cuts nothing";
}

}  // namespace
}  // namespace tombolo::net_plugin
