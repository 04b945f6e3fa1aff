// Against a pretended libibverbs (topology/testing/pretended_verbs.h): this program is linked with it.
#include "topology/system/verbs_library.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "base/format.h"
#include "topology/system/rdma.h"
#include "topology/testing/pretended_verbs.h"
#include "topology/testing/recorded_tree.h"

namespace tombolo::topology {
namespace {

using test::pretended_verbs;
using test::PretendedVerbsDevice;
using test::PretendedVerbsPort;

class VerbsLibraries : public ::testing::Test {
 protected:
  VerbsLibraries() { pretended_verbs() = {}; }
  ~VerbsLibraries() override {
    EXPECT_EQ(pretended_verbs().open, 0) << "devices were left open";
    EXPECT_EQ(pretended_verbs().lists_out, 0) << "lists were not freed";
  }

  static PretendedVerbsDevice device_named(const std::string& name) {
    PretendedVerbsDevice device;
    device.name = name;
    device.ports.resize(1);
    device.ports[0].gids[2] = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0xb8, 0x59, 0x9f, 3, 0, 0xc3, 0xab, 0x60};
    return device;
  }
  static std::vector<VerbsDevice> devices() {
    std::string problem;
    const auto library = VerbsLibrary::load(&problem);
    EXPECT_TRUE(library) << problem;
    return library ? library->devices() : std::vector<VerbsDevice>();
  }
};

TEST_F(VerbsLibraries, TellPortsWithTheirMtuAndTheGidsInUse) {
  PretendedVerbsDevice device = device_named("mlx5_0");
  device.ports.resize(2);
  device.ports[0].gids[0] = {0xfe, 0x80};  // a prefix alone is an empty slot
  device.ports[1].mtu = 1;
  pretended_verbs().devices = {device};
  const auto found = devices();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "mlx5_0");
  EXPECT_EQ(found[0].problem, "");
  ASSERT_EQ(found[0].ports.size(), 2U);
  EXPECT_EQ(found[0].ports[0].number, 1);
  EXPECT_EQ(found[0].ports[0].mtu, 4096);
  ASSERT_EQ(found[0].ports[0].gids.size(), 1U);
  EXPECT_EQ(found[0].ports[0].gids[0].index, 2);
  EXPECT_EQ(found[0].ports[0].gids[0].value, "fe80:0000:0000:0000:b859:9f03:00c3:ab60");
  EXPECT_EQ(found[0].ports[1].number, 2);
  EXPECT_EQ(found[0].ports[1].mtu, 256);
  EXPECT_TRUE(found[0].ports[1].gids.empty());
}

TEST_F(VerbsLibraries, SayWhyADeviceCannotBeOpenedAndGoOn) {
  PretendedVerbsDevice forbidden = device_named("mlx5_0"), silent = device_named("mlx5_1");
  forbidden.opens = silent.opens = false;
  forbidden.open_error = EACCES;
  pretended_verbs().devices = {forbidden, silent, device_named("mlx5_2")};
  const auto found = devices();
  ASSERT_EQ(found.size(), 3U);
  EXPECT_NE(found[0].problem.find("cannot open mlx5_0: Permission denied; may this user read"),
            std::string::npos)
      << found[0].problem;
  EXPECT_NE(found[1].problem.find("cannot open mlx5_1: no reason given"), std::string::npos)
      << found[1].problem;
  EXPECT_EQ(found[2].problem, "");
  EXPECT_EQ(found[2].ports.size(), 1U);
}

TEST_F(VerbsLibraries, PassOverPortsAndDevicesThatDoNotAnswer) {
  PretendedVerbsDevice half = device_named("mlx5_0"), dumb = device_named("mlx5_1");
  half.ports.resize(2);
  half.ports[0].answers = false;
  dumb.answers = false;
  pretended_verbs().devices = {half, dumb};
  const auto found = devices();
  ASSERT_EQ(found.size(), 2U);
  ASSERT_EQ(found[0].ports.size(), 1U);
  EXPECT_EQ(found[0].ports[0].number, 2);
  EXPECT_TRUE(found[1].ports.empty());
  pretended_verbs().lists = false;
  EXPECT_TRUE(devices().empty());
}

TEST_F(VerbsLibraries, TakeNoMtuAndNoTableBeyondReason) {
  PretendedVerbsDevice device = device_named("mlx5_0");
  device.ports.resize(3);
  device.ports[0].mtu = 0;
  device.ports[1].mtu = 6;
  device.ports[2].gids_in_table = 2'000'000'000;
  device.ports[2].gids[1024] = device.ports[0].gids[2];
  device.ports[2].gids[1023] = device.ports[0].gids[2];
  pretended_verbs().devices = {device};
  const auto found = devices();
  ASSERT_EQ(found.at(0).ports.size(), 3U);
  EXPECT_EQ(found[0].ports[0].mtu, 0);
  EXPECT_EQ(found[0].ports[1].mtu, 0);
  ASSERT_EQ(found[0].ports[2].gids.size(), 1U);
  EXPECT_EQ(found[0].ports[2].gids[0].index, 1023);
}

/// Ports of a tree, of which libibverbs tells what /sys does not.
class LiveRdmaPorts : public VerbsLibraries {
 protected:
  RdmaPort live_port() {
    const auto ports = read_rdma_ports(SysTree(tree_.root()), true);
    if (ports.size() == 1) return ports[0];
    ADD_FAILURE() << ports.size() << " ports";
    return {};
  }
  RecordedTree tree_;
};

TEST_F(LiveRdmaPorts, HaveTheMtuAndWhereSysHasNoneTheGidsOfTheLibrary) {
  tree_.rdma("mlx5_0", tree_.pci("0000:18:00.0", "mlx5_core"), 1,
             {{"gids/0", "0000:0000:0000:0000:0000:0000:0000:0000"}});
  pretended_verbs().devices = {device_named("other"), device_named("mlx5_0")};
  RdmaPort port = live_port();
  EXPECT_EQ(port.problem, "");
  EXPECT_EQ(port.nic.mtu, 4096);
  ASSERT_EQ(port.nic.gids.size(), 1U);
  EXPECT_EQ(port.nic.gids[0].index, 2);
  EXPECT_EQ(port.nic.fabric, "infiniband-fe80:0000:0000:0000");
  tree_.file("/sys/devices/pci0000:17/0000:18:00.0/infiniband/mlx5_0/ports/1/gids/0",
             "fec0:0000:0000:0000:b859:9f03:00c3:ab60");
  port = live_port();
  ASSERT_EQ(port.nic.gids.size(), 1U);
  EXPECT_EQ(port.nic.gids[0].index, 0) << "/sys knows their types, and was read first";
}

TEST_F(LiveRdmaPorts, ThatTheLibraryCannotReachSayWhatIsMissing) {
  tree_.rdma("mlx5_0", tree_.pci("0000:18:00.0", "mlx5_core"), 1);
  pretended_verbs().devices = {device_named("other")};
  EXPECT_NE(live_port().problem.find("its user-space driver is missing; install ibverbs-providers"),
            std::string::npos);
  PretendedVerbsDevice forbidden = device_named("mlx5_0");
  forbidden.opens = false;
  forbidden.open_error = EACCES;
  pretended_verbs().devices = {forbidden};
  EXPECT_NE(live_port().problem.find("cannot open mlx5_0: Permission denied"), std::string::npos);
}

TEST_F(LiveRdmaPorts, KeepTheProblemThatSysTells) {
  tree_.rdma("mlx5_0", tree_.pci("0000:18:00.0", "mlx5_core"), 1, {{"state", "2: INIT"}});
  EXPECT_NE(live_port().problem.find("is opensm running?"), std::string::npos);
  PretendedVerbsDevice forbidden = device_named("mlx5_0");
  forbidden.opens = false;
  pretended_verbs().devices = {forbidden};
  EXPECT_NE(live_port().problem.find("is opensm running?"), std::string::npos);
}

}  // namespace
}  // namespace tombolo::topology
