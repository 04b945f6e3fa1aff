#include "topology/judge/distance.h"

#include "topology/testing/recorded_machine.h"

namespace tombolo::topology {
namespace {

class Distances : public ::testing::Test {
 protected:
  std::string between(const std::string& a, const std::string& b) const {
    auto index = [&](const std::string& label) {
      for (std::size_t i = 0; i < matrix_.devices.size(); ++i)
        if (matrix_.devices[i].label == label) return i;
      ADD_FAILURE() << "no device " << label;
      return std::size_t{0};
    };
    return matrix_.cells[index(a)][index(b)];
  }
  RecordedMachine host_{"gpu-server"};
  DistanceMatrix matrix_ = distance_matrix(host_.machine);
};

TEST_F(Distances, AreNamedAsNvidiaSmiNamesThem) {
  EXPECT_EQ(between("GPU0", "GPU0"), "X");
  EXPECT_EQ(between("GPU0", "ib0"), "PIX") << "one switch";
  EXPECT_EQ(between("GPU1", "ib0"), "PXB") << "a switch below another";
  EXPECT_EQ(between("GPU0", "GPU1"), "PXB");
  EXPECT_EQ(between("GPU0", "ib1"), "PHB") << "two root ports of one host bridge";
  EXPECT_EQ(between("GPU0", "ib2"), "NODE") << "two host bridges of one processor";
  EXPECT_EQ(between("ib1", "ib2"), "NODE");
  EXPECT_EQ(between("GPU0", "ib3"), "SYS") << "two processors";
  EXPECT_EQ(between("GPU2", "GPU3"), "PIX");
  EXPECT_EQ(between("GPU2", "ib3"), "PIX");
  EXPECT_EQ(between("eno1", "GPU0"), "NODE");
}

TEST_F(Distances, AreTheSameBothWays) {
  ASSERT_EQ(matrix_.devices.size(), 9U);
  for (std::size_t i = 0; i < matrix_.cells.size(); ++i) {
    ASSERT_EQ(matrix_.cells[i].size(), matrix_.devices.size());
    EXPECT_EQ(matrix_.cells[i][i], "X");
    for (std::size_t j = 0; j < i; ++j) EXPECT_EQ(matrix_.cells[i][j], matrix_.cells[j][i]);
  }
}

TEST_F(Distances, CountNvlinksDirectAndThroughSwitches) {
  auto& gpus = host_.machine.gpus;
  ASSERT_EQ(gpus.size(), 4U);
  gpus[0].nvlinks = {{"0000:1c:00.0", false, 4}};
  gpus[1].nvlinks = {{"0000:18:00.0", false, 4}};
  for (std::size_t i : {2U, 3U}) gpus[i].nvlinks = {{"0000:05:00.0", true, 6}, {"", true, 12}};
  matrix_ = distance_matrix(host_.machine);
  EXPECT_EQ(between("GPU0", "GPU1"), "NV4");
  EXPECT_EQ(between("GPU2", "GPU3"), "NV18");
  EXPECT_EQ(between("GPU0", "GPU2"), "SYS") << "one has direct links, the other a switch's";
}

TEST(Distance, OfFunctionsAndOfUnknownPlaces) {
  const DeviceLocation first{"/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0", 0};
  const DeviceLocation second{"/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.1", 0};
  EXPECT_EQ(distance(first, second, 2), Distance::kPix) << "two functions of one card";
  const DeviceLocation in_guest{"/sys/devices/pci0000:00/0000:00:05.0", std::nullopt};
  const DeviceLocation beside{"/sys/devices/pci0000:00/0000:00:06.0", std::nullopt};
  EXPECT_EQ(distance(in_guest, beside, 1), Distance::kPhb);
  EXPECT_EQ(distance(in_guest, {"/sys/devices/pci0000:00/0000:00:05.1", std::nullopt}, 1), Distance::kPix);
  EXPECT_EQ(distance(first, in_guest, 1), Distance::kNode) << "there is only one node";
  EXPECT_EQ(distance(first, in_guest, 2), Distance::kSys) << "nobody knows: the worst is taken";
  EXPECT_EQ(distance(first, {"", 0}, 2), std::nullopt);
  EXPECT_EQ(distance(first, {"/nonsense/..//", 0}, 2), std::nullopt);
}

}  // namespace
}  // namespace tombolo::topology
