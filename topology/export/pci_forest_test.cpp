#include "topology/export/pci_forest.h"

#include <gtest/gtest.h>

namespace tombolo::topology {
namespace {

constexpr const char* kRootPort = "/sys/devices/pci0000:16/0000:16:01.0";
const std::string kUpstream = std::string(kRootPort) + "/0000:17:00.0";
const std::string kGpuPath = kUpstream + "/0000:18:00.0/0000:19:00.0";
const std::string kNicPath = kUpstream + "/0000:18:01.0/0000:1a:00.0";

PciFunction function_at(const std::string& path, std::optional<int> numa_node = 1) {
  PciFunction made;
  made.path = path;
  made.address = path.substr(path.rfind('/') + 1);
  made.numa_node = numa_node;
  return made;
}

/// A GPU and a NIC below one switch.
Machine switched_machine() {
  Machine machine;
  for (const std::string& path : {std::string(kRootPort), kUpstream, kUpstream + "/0000:18:00.0", kGpuPath,
                                  kUpstream + "/0000:18:01.0", kNicPath})
    machine.pci.push_back(function_at(path));
  machine.gpus.emplace_back().pci_path = kGpuPath;
  machine.nics.emplace_back().pci_path = kNicPath;
  return machine;
}

bool all_nics(const Nic&) {
  return true;
}

TEST(PciForest, ASwitchIsOneNodeWithItsDevicesBelow) {
  const Machine machine = switched_machine();
  const PciForest forest = pci_forest(machine, all_nics);
  ASSERT_EQ(forest.roots.size(), 1U);
  const auto& root = forest.roots.at(1);
  ASSERT_EQ(root.size(), 1U);
  const PciNode& upstream = root.at("0000:17:00.0");
  EXPECT_EQ(upstream.port_above->address, "0000:16:01.0");
  EXPECT_TRUE(upstream.gpus.empty() && upstream.nics.empty());
  ASSERT_EQ(upstream.below.size(), 2U);
  const PciNode &gpu = upstream.below.at("0000:19:00.0"), &nic = upstream.below.at("0000:1a:00.0");
  EXPECT_EQ(gpu.gpus, std::vector<std::size_t>{0});
  EXPECT_EQ(gpu.port_above->address, "0000:18:00.0");
  EXPECT_EQ(nic.nics, std::vector<std::size_t>{0});
  EXPECT_TRUE(forest.gpus.empty() && forest.nics.empty());
}

TEST(PciForest, DevicesWithoutAFunctionStandApartAndNicsThatAreNotTakenNowhere) {
  Machine machine = switched_machine();
  machine.gpus.emplace_back();                                      // no PCI path
  machine.nics.emplace_back().pci_path = "/sys/devices/elsewhere";  // not among the functions
  machine.nics.emplace_back().usable = false;
  const PciForest forest = pci_forest(machine, [](const Nic& nic) { return nic.usable; });
  EXPECT_EQ(forest.gpus, std::vector<std::size_t>{1});
  EXPECT_EQ(forest.nics, std::vector<std::size_t>{1});
}

TEST(PciForest, NumaNodesWithoutDevicesAreThereToo) {
  Machine machine;
  machine.nodes = {{0, ""}, {3, ""}};
  EXPECT_EQ(pci_forest(machine, all_nics).roots.size(), 2U);
  EXPECT_EQ(pci_forest(Machine{}, all_nics).roots.size(), 1U) << "node 0, where nothing is known";
  machine.pci = {function_at(kRootPort, std::nullopt)};
  machine.gpus.emplace_back().pci_path = kRootPort;
  EXPECT_TRUE(pci_forest(machine, all_nics).roots.contains(-1)) << "a function of no known node";
}

TEST(PciLink, IsWhatBothEndsCanDo) {
  PciFunction device = function_at(kGpuPath), port = function_at(kRootPort);
  device.max_link_speed = "32.0 GT/s PCIe";
  device.max_link_width = 16;
  PciNode node;
  node.facts = &device;
  EXPECT_EQ(pci_link(node).speed, "32.0 GT/s PCIe");
  node.port_above = &port;
  EXPECT_EQ(pci_link(node).width, 16) << "the port tells nothing";
  port.max_link_speed = "8.0 GT/s PCIe";
  port.max_link_width = 8;
  EXPECT_EQ(pci_link(node).speed, "8.0 GT/s PCIe");
  EXPECT_EQ(pci_link(node).width, 8);
  port.max_link_speed = "64.0 GT/s PCIe";
  port.max_link_width = 32;
  EXPECT_EQ(pci_link(node).speed, "32.0 GT/s PCIe");
  EXPECT_EQ(pci_link(node).width, 16);
  device.max_link_speed.clear();
  device.max_link_width = 0;
  EXPECT_EQ(pci_link(node).speed, "64.0 GT/s PCIe") << "the device tells nothing";
  EXPECT_EQ(pci_link(node).width, 32);
}

}  // namespace
}  // namespace tombolo::topology
