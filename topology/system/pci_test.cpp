#include "topology/system/pci.h"

#include <gtest/gtest.h>

#include "topology/testing/recorded_tree.h"

namespace tombolo::topology {
namespace {

using Addresses = std::vector<std::string>;

TEST(Pci, StepsAreTheAddressesFromTheHostBridgeToTheDevice) {
  EXPECT_EQ(pci_steps("/sys/devices/pci0000:16/0000:16:02.0/0000:17:00.0"),
            (Addresses{"0000:16:02.0", "0000:17:00.0"}));
  EXPECT_EQ(pci_steps("/sys/devices/pci10000:e0/10000:e0:06.0"), Addresses{"10000:e0:06.0"});
  EXPECT_EQ(pci_steps("/sys/devices/virtual/net/lo"), Addresses{});
  EXPECT_EQ(pci_steps(""), Addresses{});
}

TEST(Pci, HostBridgeIsTheFolderAboveTheFirstStep) {
  EXPECT_EQ(host_bridge("/sys/devices/pci0000:16/0000:16:02.0/0000:17:00.0"), "pci0000:16");
  EXPECT_EQ(host_bridge("/sys/devices/virtual/net/lo"), "");
  EXPECT_EQ(host_bridge(""), "");
}

TEST(Pci, FunctionsComeOnceWithAllAboveThem) {
  RecordedTree tree;
  const std::string port = "/sys/devices/pci0000:16/0000:16:02.0", nic = port + "/0000:17:00.0",
                    other = port + "/0000:17:00.1";
  tree.file(port + "/class", "0x060400");
  tree.file(nic + "/vendor", "0x15b3");
  tree.file(nic + "/max_link_speed", "16.0 GT/s PCIe");
  tree.file(nic + "/max_link_width", "16");
  tree.file(nic + "/numa_node", "1");
  tree.file(other + "/max_link_width", "255");  // what a bridge without a link reports
  tree.file(other + "/numa_node", "-1");
  const auto found =
      read_pci_functions(SysTree(tree.root()), {other, nic, "", "/sys/devices/virtual/net/lo"});
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].path, port);
  EXPECT_EQ(found[0].device_class, "0x060400");
  EXPECT_EQ(found[1].address, "0000:17:00.0");
  EXPECT_EQ(found[1].vendor, "0x15b3");
  EXPECT_EQ(found[1].device, "");
  EXPECT_EQ(found[1].max_link_speed, "16.0 GT/s PCIe");
  EXPECT_EQ(found[1].max_link_width, 16);
  EXPECT_EQ(found[1].numa_node, 1);
  EXPECT_EQ(found[2].address, "0000:17:00.1");
  EXPECT_EQ(found[2].max_link_width, 0);
  EXPECT_EQ(found[2].numa_node, std::nullopt);
}

}  // namespace
}  // namespace tombolo::topology
