// hwloc's view of a machine that the test describes to it (HWLOC_XMLFILE).
#include "topology/system/locality.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/temporary_folder.h"

namespace tombolo::topology {
namespace {

/// Two NUMA nodes; a NIC near the second, whose InfiniBand port has two devices of the system, and a GPU that
/// is equally near to both.
constexpr const char* kMachine = R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
 <object type="Machine" os_index="0" cpuset="0x3" complete_cpuset="0x3" allowed_cpuset="0x3" nodeset="0x3"
   complete_nodeset="0x3" allowed_nodeset="0x3" gp_index="1">
  <object type="Package" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1"
    gp_index="2">
   <object type="NUMANode" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1"
     complete_nodeset="0x1" gp_index="3" local_memory="1048576"/>
   <object type="Core" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1"
     gp_index="4">
    <object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1"
      gp_index="5"/>
   </object>
  </object>
  <object type="Package" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x2" complete_nodeset="0x2"
    gp_index="6">
   <object type="NUMANode" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x2"
     complete_nodeset="0x2" gp_index="7" local_memory="1048576"/>
   <object type="Core" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x2" complete_nodeset="0x2"
     gp_index="8">
    <object type="PU" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x2" complete_nodeset="0x2"
      gp_index="9"/>
   </object>
   <object type="Bridge" gp_index="10" bridge_type="0-1" depth="0" bridge_pci="0000:[17-18]">
    <object type="PCIDev" gp_index="11" pci_busid="0000:18:00.1" pci_type="0207 [15b3:101b] [15b3:0006] 00"
      pci_link_speed="0.000000">
     <object type="OSDev" gp_index="12" name="ib0" osdev_type="2"/>
     <object type="OSDev" gp_index="13" name="mlx5_0" osdev_type="3"/>
    </object>
   </object>
  </object>
  <object type="Bridge" gp_index="14" bridge_type="0-1" depth="0" bridge_pci="0000:[3a-3b]">
   <object type="PCIDev" gp_index="15" pci_busid="0000:3b:00.0" pci_type="0302 [10de:2335] [10de:0000] 00"
     pci_link_speed="0.000000"/>
  </object>
 </object>
</topology>
)";

TEST(Locality, IsTheOneNodeThatADeviceIsNear) {
  std::string problem;
  if (!read_locality(&problem)) GTEST_SKIP() << problem;
  const TemporaryFolder folder;
  folder.write("machine.xml", kMachine);
  ::setenv("HWLOC_XMLFILE", folder.file("machine.xml").c_str(), 1);
  const auto locality = read_locality(&problem);
  ::unsetenv("HWLOC_XMLFILE");
  ASSERT_TRUE(locality) << problem;
  EXPECT_EQ(locality->numa_nodes, 2);
  EXPECT_EQ(locality->node_of_pci, (std::map<std::string, int>{{"0000:18:00.1", 1}}))
      << "the GPU is near both nodes, and so near none";
  EXPECT_EQ(locality->node_of_device, (std::map<std::string, int>{{"ib0", 1}, {"mlx5_0", 1}}));
}

TEST(Locality, OfAMachineWithOneNodeIsThatNode) {
  std::string problem;
  if (!read_locality(&problem)) GTEST_SKIP() << problem;
  ::setenv("HWLOC_SYNTHETIC", "node:1 core:2 pu:1", 1);
  const auto locality = read_locality(nullptr);
  ::unsetenv("HWLOC_SYNTHETIC");
  ASSERT_TRUE(locality);
  EXPECT_EQ(locality->numa_nodes, 1);
  EXPECT_TRUE(locality->node_of_pci.empty());
}

}  // namespace
}  // namespace tombolo::topology
