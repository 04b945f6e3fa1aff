#include "topology/system/processors.h"

#include <gtest/gtest.h>

#include "topology/testing/recorded_tree.h"

namespace tombolo::topology {
namespace {

TEST(Processors, NumaNodesAreInTheOrderOfTheirNumbers) {
  RecordedTree tree;  // has node0 and node1
  tree.file("/sys/devices/system/node/node10/cpumap", "00000000,0000ff00");
  tree.file("/sys/devices/system/node/node2/cpumap", "rm -rf");
  tree.folder("/sys/devices/system/node/nodes");
  tree.folder("/sys/devices/system/node/node99999");
  tree.file("/sys/devices/system/node/online", "0-2,10");
  std::vector<int> ids;
  std::vector<std::string> masks;
  for (const NumaNode& node : read_numa_nodes(SysTree(tree.root()))) {
    ids.push_back(node.id);
    masks.push_back(node.cpu_mask);
  }
  EXPECT_EQ(ids, (std::vector<int>{0, 1, 2, 10}));
  EXPECT_EQ(masks, (std::vector<std::string>{"", "", "", "00000000,0000ff00"}));
}

Processor processor_of(const std::string& cpuinfo) {
  RecordedTree tree;
  tree.file("/proc/cpuinfo", cpuinfo);
  return read_processor(SysTree(tree.root()));
}

TEST(Processors, X86TellsVendorFamilyAndModel) {
  const auto found = processor_of(
      "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n"
      "model name\t: Intel(R) Xeon(R) Platinum 8480C\n");
  EXPECT_EQ(found.arch, "x86_64");
  EXPECT_EQ(found.vendor, "GenuineIntel");
  EXPECT_EQ(found.family, 6);
  EXPECT_EQ(found.model, 143);
}

TEST(Processors, TheModelIsNotTakenFromTheModelsName) {
  EXPECT_EQ(processor_of("vendor_id\t: AuthenticAMD\nmodel name\t: 7 EPYC\nmodel\t\t: 17\n").model, 17);
}

TEST(Processors, OthersAreKnownByTheirArchitectureAlone) {
  EXPECT_EQ(processor_of("processor\t: 0\nCPU implementer\t: 0x41\n").arch, "arm64");
  EXPECT_EQ(processor_of("processor\t: 0\ncpu\t\t: POWER9, altivec supported\n").arch, "ppc64");
  EXPECT_EQ(processor_of("processor\t: 0\n").arch, "");
  EXPECT_EQ(processor_of("vendor_id\t: GenuineIntel\ncpu family\t: many\nmodel\t\t: -3\n").family, 0);
  EXPECT_EQ(processor_of("vendor_id\t: GenuineIntel\ncpu family\t: many\nmodel\t\t: -3\n").model, 0);
}

}  // namespace
}  // namespace tombolo::topology
