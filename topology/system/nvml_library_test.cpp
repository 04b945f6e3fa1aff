// Against a pretended NVML (topology/testing/pretended_nvml.h): this program is linked with it.
#include "topology/system/nvml_library.h"

#include <gtest/gtest.h>

#include "topology/testing/pretended_nvml.h"
#include "topology/testing/recorded_tree.h"

namespace tombolo::topology {
namespace {

using test::pretended_nvml;
using test::PretendedNvmlGpu;

class NvmlLibrary : public ::testing::Test {
 protected:
  NvmlLibrary() { pretended_nvml() = {}; }
  ~NvmlLibrary() override { EXPECT_EQ(pretended_nvml().running, 0) << "it was not shut down"; }

  static PretendedNvmlGpu h200_at(const char* bus_id) {
    PretendedNvmlGpu gpu;
    gpu.name = "NVIDIA H200";
    gpu.bus_id = bus_id;
    gpu.memory = 150'754'820'096;
    gpu.major = 9;
    return gpu;
  }
};

TEST_F(NvmlLibrary, TellsNamesPlacesAndMemory) {
  pretended_nvml().gpus = {h200_at("00000000:1B:00.0")};
  const auto gpus = read_nvml();
  ASSERT_EQ(gpus.size(), 1U);
  EXPECT_EQ(gpus[0].name, "NVIDIA H200");
  EXPECT_EQ(gpus[0].pci_address, "0000:1b:00.0");
  EXPECT_EQ(gpus[0].memory_bytes, 150'754'820'096U);
  EXPECT_EQ(gpus[0].compute_capability, 90);
  EXPECT_TRUE(gpus[0].nvlinks.empty());
}

TEST_F(NvmlLibrary, ThatDoesNotStartOrCountKnowsNoGpu) {
  pretended_nvml().gpus = {h200_at("00000000:1B:00.0")};
  pretended_nvml().counts = false;
  EXPECT_TRUE(read_nvml().empty());
  pretended_nvml().starts = false;
  EXPECT_TRUE(read_nvml().empty());
}

TEST_F(NvmlLibrary, PassesOverAGpuThatDoesNotAnswerAndWhatItDoesNotTell) {
  PretendedNvmlGpu lost = h200_at("00000000:1B:00.0");
  lost.answers = false;
  pretended_nvml().gpus = {lost, PretendedNvmlGpu(), h200_at("00000000:1D:00.0")};
  const auto gpus = read_nvml();
  ASSERT_EQ(gpus.size(), 2U);
  EXPECT_EQ(gpus[0].name, "");
  EXPECT_EQ(gpus[0].pci_address, "");
  EXPECT_EQ(gpus[0].memory_bytes, 0U);
  EXPECT_EQ(gpus[0].compute_capability, 0);
  EXPECT_EQ(gpus[1].pci_address, "0000:1d:00.0");
}

TEST_F(NvmlLibrary, MayFillABufferToItsEnd) {
  PretendedNvmlGpu gpu = h200_at("00000000:1B:00.0");
  gpu.name = std::string(200, 'x');
  gpu.bus_id = std::string(200, '1');
  pretended_nvml().gpus = {gpu};
  const auto gpus = read_nvml();
  ASSERT_EQ(gpus.size(), 1U);
  EXPECT_EQ(gpus[0].name, std::string(96, 'x'));
  EXPECT_EQ(gpus[0].pci_address, std::string(32, '1'));
}

TEST_F(NvmlLibrary, CountsActiveLinksByTheirOtherEnd) {
  PretendedNvmlGpu gpu = h200_at("00000000:1B:00.0");
  gpu.links = {{true, "00000000:1C:00.0", 0},     {true, "00000000:05:00.0", 2},
               {false, "00000000:1C:00.0", 0},    {true, "00000000:1C:00.0", 255},
               {true, "00000000:05:00.0", 2},     {true, "", 0},
               {true, "FFFFFFFF:FFFFFFFF:FF", 2}, {true, "00000000:05:00.0", 2}};
  pretended_nvml().gpus = {gpu};
  std::string found;
  const auto gpus = read_nvml();
  for (const NvLinks& group : gpus.at(0).nvlinks)
    found += fmt::format("{} {} '{}'; ", group.count, group.to_switch ? "switch" : "gpu", group.peer);
  EXPECT_EQ(found, "2 gpu '0000:1c:00.0'; 3 switch '0000:05:00.0'; 1 switch ''; ")
      << "of a switch that a guest does not see there is no address";
}

TEST_F(NvmlLibrary, NamesTheGpusOfTheTreeByTheirPlace) {
  RecordedTree tree;
  for (const char* address : {"0000:1b:00.0", "0000:1c:00.0"}) {
    const auto gpu = tree.pci(address, "nvidia");
    tree.file(gpu + "/class", "0x030200");
    tree.file(gpu + "/vendor", "0x10de");
    tree.file(gpu + "/device", "0x2335");
  }
  PretendedNvmlGpu nameless = h200_at("00000000:1C:00.0");
  nameless.name.clear();
  pretended_nvml().gpus = {nameless, h200_at("00000000:1B:00.0"), h200_at("00000000:FF:00.0")};
  const auto gpus = read_gpus(SysTree(tree.root()), true);
  ASSERT_EQ(gpus.size(), 2U) << "what the tree lacks is not here";
  EXPECT_EQ(gpus[0].name, "NVIDIA H200");
  EXPECT_EQ(gpus[0].pci_path, "/sys/devices/pci0000:17/0000:1b:00.0");
  EXPECT_EQ(gpus[0].memory_bytes, 150'754'820'096.0);
  EXPECT_EQ(gpus[0].compute_capability, 90);
  EXPECT_EQ(gpus[1].name, "NVIDIA GPU 0x2335");
  EXPECT_EQ(gpus[1].compute_capability, 90);
  EXPECT_EQ(read_gpus(SysTree(tree.root()), false).at(0).name, "NVIDIA GPU 0x2335");
}

TEST_F(NvmlLibrary, ListsTheGpusOfAContainerThatHidesTheBus) {
  RecordedTree tree;
  pretended_nvml().gpus = {h200_at("00000000:1B:00.0"), h200_at("00000000:1C:00.0")};
  const auto gpus = read_gpus(SysTree(tree.root()), true);
  ASSERT_EQ(gpus.size(), 2U);
  for (const Gpu& gpu : gpus) {
    EXPECT_EQ(gpu.kind, DeviceKind::kGpu);
    EXPECT_EQ(gpu.name, "NVIDIA H200");
    EXPECT_EQ(gpu.pci_path, "");
  }
}

TEST_F(NvmlLibrary, KeepsApartGpusWhoseAddressesItDoesNotTell) {
  PretendedNvmlGpu other = h200_at("");
  other.name = "NVIDIA A100";
  other.memory = 85'899'345'920;
  pretended_nvml().gpus = {h200_at(""), other, h200_at("")};
  const RecordedTree hidden;
  std::string found;
  for (const Gpu& gpu : read_gpus(SysTree(hidden.root()), true))
    found += fmt::format("{} {:.0f}; ", gpu.name, gpu.memory_bytes);
  EXPECT_EQ(found, "NVIDIA H200 150754820096; NVIDIA A100 85899345920; NVIDIA H200 150754820096; ");

  RecordedTree tree;
  const auto gpu = tree.pci("0000:1b:00.0", "nvidia");
  tree.file(gpu + "/class", "0x030200");
  tree.file(gpu + "/vendor", "0x10de");
  tree.file(gpu + "/device", "0x2335");
  const auto gpus = read_gpus(SysTree(tree.root()), true);
  ASSERT_EQ(gpus.size(), 1U);
  EXPECT_EQ(gpus[0].name, "NVIDIA GPU 0x2335") << "whose of the three it is nobody knows";
}

}  // namespace
}  // namespace tombolo::topology
