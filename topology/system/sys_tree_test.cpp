#include "topology/system/sys_tree.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "topology/testing/recorded_tree.h"

namespace tombolo::topology {
namespace {

TEST(SysTree, TextsAreTrimmedAndHaveNoControlCharacters) {
  RecordedTree tree;
  tree.file("/sys/a", "  two words\t\n");
  tree.file("/sys/b", "bell\a \x1b[31m \xff");
  tree.file("/sys/empty", "");
  const SysTree read(tree.root());
  EXPECT_EQ(read.text("/sys/a"), "two words");
  EXPECT_EQ(read.text("/sys/b"), "bell? ?[31m ?");
  EXPECT_EQ(read.text("/sys/empty"), "");
  EXPECT_EQ(read.text("/sys/none"), std::nullopt);
  EXPECT_EQ(read.text("/sys"), std::nullopt) << "a folder";
}

TEST(SysTree, APipeIsNoFileAndDoesNotBlock) {
  RecordedTree tree;
  ASSERT_EQ(::mkfifo((tree.root() / "sys/pipe").c_str(), 0600), 0);
  EXPECT_EQ(SysTree(tree.root()).text("/sys/pipe"), std::nullopt);
}

TEST(SysTree, IntegersAreDecimalOrHexadecimalAndNothingElse) {
  RecordedTree tree;
  const auto integer = [&](const std::string& text) {
    tree.file("/sys/number", text);
    return SysTree(tree.root()).integer("/sys/number");
  };
  EXPECT_EQ(integer("1500"), 1500);
  EXPECT_EQ(integer("-1"), -1);
  EXPECT_EQ(integer("0x15b3"), 0x15b3);
  for (const char* none : {"", "0x", "12 3", "up", "1.5", "99999999999999999999"})
    EXPECT_EQ(integer(none), std::nullopt) << none;
  EXPECT_EQ(SysTree(tree.root()).integer("/sys/none"), std::nullopt);
}

TEST(SysTree, UeventKeysAreWholeWords) {
  RecordedTree tree;
  tree.file("/sys/uevent", "XDEVTYPE=no\nDEVTYPE=vlan\nDEVTYPE_OLD=no");
  const SysTree read(tree.root());
  EXPECT_EQ(read.uevent("/sys/uevent", "DEVTYPE"), "vlan");
  EXPECT_EQ(read.uevent("/sys/uevent", "DEV"), "");
  EXPECT_EQ(read.uevent("/sys/none", "DEVTYPE"), "");
}

TEST(SysTree, LinksAreFollowedInsideTheRootOnly) {
  RecordedTree tree;
  tree.link("/sys/class/net/eth0", "/sys/devices/virtual/net/eth0");
  std::filesystem::create_symlink("/", tree.root() / "sys/outside");
  std::filesystem::create_symlink("nowhere", tree.root() / "sys/broken");
  const SysTree read(tree.root());
  EXPECT_EQ(read.real_path("/sys/class/net/eth0"), "/sys/devices/virtual/net/eth0");
  EXPECT_EQ(read.link_name("/sys/class/net/eth0"), "eth0");
  EXPECT_EQ(read.real_path("/sys/outside"), "");
  EXPECT_EQ(read.real_path("/sys/broken"), "");
  EXPECT_EQ(read.link_name("/sys/broken"), "nowhere");
  EXPECT_EQ(read.link_name("/sys/class"), "");
}

TEST(SysTree, PciAddressesHaveAllTheirDigits) {
  for (const char* good : {"0000:18:00.0", "10000:e1:00.7", "0000:FF:1f.3"})
    EXPECT_TRUE(is_pci_address(good)) << good;
  for (const char* bad : {"", "18:00.0", "0000:18:00", "0000:18:00.", "0000-18:00.0", "0000:1g:00.0"})
    EXPECT_FALSE(is_pci_address(bad)) << bad;
}

TEST(PciFacts, AreThoseOfTheFunctionAboveAVirtioDevice) {
  RecordedTree tree;
  const std::string function = tree.pci("0000:18:00.0", "virtio-pci", 1);
  tree.interface("eth0", function + "/virtio0");
  tree.link(function + "/virtio0/driver", "/sys/bus/virtio/drivers/virtio_net");
  const PciFacts facts = read_pci_facts(SysTree(tree.root()), "/sys/class/net/eth0/device");
  EXPECT_EQ(facts.path, function);
  EXPECT_EQ(facts.driver, "virtio_net");
  EXPECT_EQ(facts.numa_node, 1);
  EXPECT_FALSE(facts.virtual_function);
}

TEST(PciFacts, KnowVirtualFunctionsWithAndWithoutTheirPhysicalOnes) {
  RecordedTree tree;
  const std::string physical = tree.pci("0000:18:00.0", "mlx5_core"),
                    function = tree.pci("0000:18:00.2", "mlx5_core"),
                    in_guest = tree.pci("0000:00:05.0", "mlx5_core"),
                    by_driver = tree.pci("0000:00:06.0", "iavf");
  tree.link(function + "/physfn", physical);
  tree.file(in_guest + "/vendor", "0x15b3");
  tree.file(in_guest + "/device", "0x101e");
  const SysTree read(tree.root());
  const auto facts_of = [&](const std::string& folder) { return read_pci_facts(read, folder); };
  EXPECT_FALSE(facts_of(physical).virtual_function);
  EXPECT_TRUE(facts_of(function).virtual_function);
  EXPECT_EQ(facts_of(function).physical_function, "0000:18:00.0");
  EXPECT_TRUE(facts_of(in_guest).virtual_function);
  EXPECT_EQ(facts_of(in_guest).physical_function, "");
  EXPECT_TRUE(facts_of(by_driver).virtual_function);
}

TEST(PciFacts, OfSomethingWithoutAPciFunctionAreEmpty) {
  RecordedTree tree;
  tree.interface("veth0", "");
  const PciFacts facts = read_pci_facts(SysTree(tree.root()), "/sys/class/net/veth0/device");
  EXPECT_EQ(facts.path, "");
  EXPECT_EQ(facts.driver, "");
  EXPECT_EQ(facts.numa_node, std::nullopt);
}

}  // namespace
}  // namespace tombolo::topology
