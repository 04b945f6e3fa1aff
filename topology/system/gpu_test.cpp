// GPUs on the PCI bus of a tree. What NVML adds: nvml_library_test.cpp.
#include "topology/system/gpu.h"

#include <gtest/gtest.h>

#include "topology/testing/recorded_tree.h"

namespace tombolo::topology {
namespace {

/// A function of the PCI bus by its class, vendor and device numbers.
void add_function(RecordedTree& tree, const std::string& address, const char* type, const char* vendor,
                  const char* device) {
  const auto folder = tree.pci(address, "driver", -1);
  tree.file(folder + "/class", type);
  tree.file(folder + "/vendor", vendor);
  if (device != nullptr) tree.file(folder + "/device", device);
}

TEST(Gpus, AreNvidiasDisplaysAndControllersInTheOrderOfTheirAddresses) {
  RecordedTree tree;
  add_function(tree, "0000:9b:00.0", "0x030200", "0x10de", "0x2335");
  add_function(tree, "0000:1b:00.0", "0x030000", "0x10de", "0x2684");  // a card with a display
  add_function(tree, "0000:1c:00.0", "0x030200", "0x10de", nullptr);
  add_function(tree, "0000:1b:00.1", "0x040300", "0x10de", "0x22ba");  // its audio function
  add_function(tree, "0000:03:00.0", "0x030000", "0x1a03", "0x2000");  // another vendor's
  add_function(tree, "0000:05:00.0", "0x068000", "0x10de", "0x22a3");  // an NVSwitch
  add_function(tree, "0000:06:00.0", "nonsense", "0x10de", "0x2335");
  std::string found;
  for (const Gpu& gpu : read_gpus(SysTree(tree.root()), false)) {
    EXPECT_EQ(gpu.kind, DeviceKind::kGpu);
    EXPECT_EQ(gpu.numa_node, std::nullopt) << "-1 is no node";
    EXPECT_EQ(gpu.memory_bytes, 0);
    found += fmt::format("{} {}; ", gpu.pci_path.substr(gpu.pci_path.rfind('/') + 1), gpu.name);
  }
  EXPECT_EQ(found,
            "0000:1b:00.0 NVIDIA GPU 0x2684; 0000:1c:00.0 NVIDIA GPU of unknown type; "
            "0000:9b:00.0 NVIDIA GPU 0x2335; ");
}

TEST(Gpus, AreNoneWhereTheBusIsHidden) {
  RecordedTree tree;
  EXPECT_TRUE(read_gpus(SysTree(tree.root()), false).empty());
}

}  // namespace
}  // namespace tombolo::topology
