#include "net_plugin/node.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "topology/detect.h"

namespace tombolo::net_plugin {
namespace {

topology::Nic nic(const std::string& name, topology::NicKind kind, double gigabits) {
  topology::Nic made;
  made.name = name;
  made.kind = kind;
  made.rate_bits_per_second = static_cast<std::uint64_t>(gigabits * 1e9);
  made.addresses = {"10.0.0.1"};
  return made;
}

topology::Host host_with(std::vector<topology::Nic> nics) {
  topology::Host host;
  host.name = "a0";
  host.nics = std::move(nics);
  return host;
}

std::vector<std::string> names_of(const std::vector<topology::Nic>& nics) {
  std::vector<std::string> names;
  for (const topology::Nic& one : nics) names.push_back(one.name);
  return names;
}

const std::vector<topology::Nic> kTwoRailsAndEthernet{nic("eth0", topology::NicKind::kTcp, 10),
                                                      nic("ib0", topology::NicKind::kInfiniBand, 200),
                                                      nic("ib1", topology::NicKind::kInfiniBand, 400)};

TEST(NetDevices, MergedAreOneWithAllNicsAsFastAsTheBest) {
  auto devices = make_devices(host_with(kTwoRailsAndEthernet), DeviceMode::kMerged);
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_EQ(devices[0].name, "tombolo0");
  EXPECT_EQ(devices[0].speed_megabits, 400'000);
  EXPECT_EQ(names_of(devices[0].host.nics), (std::vector<std::string>{"ib0", "ib1", "eth0"}));
}

TEST(NetDevices, PerNicAreThoseOfTheBestKindWithTheOthersStandingBy) {
  auto devices = make_devices(host_with(kTwoRailsAndEthernet), DeviceMode::kPerNic);
  ASSERT_EQ(devices.size(), 2U);
  EXPECT_EQ(devices[0].name, "ib0");
  EXPECT_EQ(devices[0].speed_megabits, 200'000);
  EXPECT_EQ(names_of(devices[0].host.nics), (std::vector<std::string>{"ib0", "eth0"}));
  EXPECT_EQ(devices[1].name, "ib1");
  EXPECT_EQ(names_of(devices[1].host.nics), (std::vector<std::string>{"ib1", "eth0"}));
  EXPECT_NE(devices[0].guid, devices[1].guid);
}

TEST(NetDevices, SpeedIsNcclsDefaultWhereItIsUnknown) {
  auto devices = make_devices(host_with({nic("lo", topology::NicKind::kTcp, 0)}), DeviceMode::kMerged);
  EXPECT_EQ(devices.at(0).speed_megabits, 10'000);
  EXPECT_EQ(devices.at(0).pci_path, "");
}

TEST(NetDevices, APciPathThatThisMachineLacksIsLeftOut) {
  auto one = nic("ib0", topology::NicKind::kInfiniBand, 200);
  one.pci_path = "/sys/devices/pci0000:17/0000:17:00.0/nothing-here";
  EXPECT_EQ(make_devices(host_with({one}), DeviceMode::kMerged).at(0).pci_path, "");
  one.pci_path = "/proc/self";
  EXPECT_EQ(make_devices(host_with({one}), DeviceMode::kMerged).at(0).pci_path, "/proc/self");
}

TEST(NetDevices, AHostWithoutAnAddressIsAnErrorThatNamesIt) {
  auto one = nic("ib0", topology::NicKind::kInfiniBand, 200);
  one.addresses.clear();
  try {
    make_devices(host_with({one}), DeviceMode::kMerged);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("'a0'"), std::string::npos) << error.what();
  }
}

topology::Nic nic_of_role(const std::string& name, topology::NicRole role) {
  auto made = nic(name, topology::NicKind::kTcp, 10);
  made.role = role;
  return made;
}

TEST(PoorChoice, LoopbackAloneIsToldWithWhatItCannotReach) {
  const std::string warning =
      poor_choice_warning(host_with({nic_of_role("lo", topology::NicRole::kLoopback)}));
  for (const char* part : {"host 'a0'", "lo (loopback)", "only ranks on this host", "TOMBOLO_CLUSTER"})
    EXPECT_NE(warning.find(part), std::string::npos) << warning << " lacks " << part;
}

TEST(PoorChoice, VirtualOnesAndTunnelsAreNamed) {
  const std::string warning = poor_choice_warning(host_with(
      {nic_of_role("veth0", topology::NicRole::kVirtual), nic_of_role("wg0", topology::NicRole::kTunnel)}));
  for (const char* part : {"veth0 (virtual), wg0 (tunnel)", "all there is"})
    EXPECT_NE(warning.find(part), std::string::npos) << warning << " lacks " << part;
}

TEST(PoorChoice, OneRealNicIsEnoughToSayNothing) {
  EXPECT_EQ(poor_choice_warning(host_with({nic_of_role("veth0", topology::NicRole::kVirtual),
                                           nic_of_role("eth0", topology::NicRole::kPhysical)})),
            "");
  // A NIC that is not used does not count.
  auto down = nic_of_role("eth0", topology::NicRole::kPhysical);
  down.usable = false;
  EXPECT_NE(poor_choice_warning(host_with({nic_of_role("veth0", topology::NicRole::kVirtual), down})), "");
}

TEST(PoorChoice, IsLoggedForThisHostExactlyWhereItApplies) {
  std::string logged;
  make_node(Log(LogLevel::kWarning, [&](LogLevel, std::string_view text) { logged += text; }));
  const bool applies =
      !topology::cluster_file_from_environment() && !poor_choice_warning(topology::local_host({})).empty();
  EXPECT_EQ(logged.find("no NIC that would be used by default") != std::string::npos, applies) << logged;
}

}  // namespace
}  // namespace tombolo::net_plugin
