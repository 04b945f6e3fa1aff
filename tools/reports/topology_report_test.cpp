#include "tools/reports/topology_report.h"

#include <gtest/gtest.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tuple>

#include "base/json.h"
#include "base/units.h"
#include "tools/cli/testing.h"

namespace tombolo::tools {
namespace {

using topology::NicKind;

topology::Nic reported_nic(const std::string& name, NicKind kind, const std::string& address) {
  topology::Nic nic;
  nic.name = name;
  nic.kind = kind;
  nic.state = topology::NicState::kUp;
  nic.addresses = {address};
  nic.networks = {"10.0.0.0/24"};
  nic.reason = "is up";
  return nic;
}

topology::Machine reported_machine() {
  topology::Machine machine;
  machine.host_name = "here";
  machine.cores = 8;
  machine.numa_nodes = 1;
  machine.memory_bytes = 64 * kGiB;
  machine.nics = {reported_nic("eth0", NicKind::kTcp, "10.0.0.1")};
  return machine;
}

/// The columns of the line that begins with this name.
std::vector<std::string> row_of(const std::string& text, const std::string& name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name + " ")) continue;
    std::istringstream words(line);
    return {std::istream_iterator<std::string>(words), {}};
  }
  ADD_FAILURE() << "no line begins with " << name << ":\n" << text;
  return std::vector<std::string>(20);
}

TEST(TopologyTables, ShowADashForWhatIsNotKnown) {
  const std::string text = topology_tables(reported_machine());
  EXPECT_MENTIONS(text, "here: 8 cores, 1 NUMA node, 64 GiB of memory\n");
  // NIC KIND RATE MTU STATE NUMA PCI DRIVER RDMA ADDRESS FABRIC USED WHY
  EXPECT_EQ(row_of(text, "eth0"), (std::vector<std::string>{"eth0", "TCP", "-", "-", "up", "-", "-", "-", "-",
                                                            "10.0.0.1", "-", "yes", "is", "up"}));
  EXPECT_MENTIONS(text, "\nNo NVIDIA GPU.\n");
  EXPECT_EQ(text.find("DISTANCE"), std::string::npos) << "of a single device";
}

TEST(TopologyTables, SayThatThereIsNothing) {
  topology::Machine machine = reported_machine();
  machine.nics.clear();
  machine.numa_nodes = 2;
  const std::string text = topology_tables(machine);
  EXPECT_MENTIONS(text, "2 NUMA nodes,");
  EXPECT_MENTIONS(text, "No network interface and no RDMA port.\n");
}

TEST(TopologyTables, ShowWhatANicHas) {
  topology::Machine machine = reported_machine();
  topology::Nic& nic = machine.nics[0];
  nic.kind = NicKind::kRoce;
  nic.roce_v1 = nic.roce_v2 = true;
  nic.rate_bits_per_second = 25'000'000'000;
  nic.mtu = 9000;
  nic.numa_node = 1;
  nic.pci_path = "/sys/devices/pci0000:17/0000:18:00.0";
  nic.driver = "mlx5_core";
  nic.rdma_device = "mlx5_0";
  nic.rdma_port = 1;
  nic.addresses = {"10.0.0.1", "fd00::1", "fd00::2"};
  nic.fabric = "roce-A";
  nic.usable = false;
  const auto row = row_of(topology_tables(machine), "eth0");
  EXPECT_EQ(row, (std::vector<std::string>{"eth0", "RoCE", "v1+v2", "25", "Gbit/s", "9000", "up", "1",
                                           "0000:18:00.0", "mlx5_core", "mlx5_0/1", "10.0.0.1", "+2",
                                           "roce-A", "no", "is", "up"}));
  for (const auto& [v1, v2, shown] : {std::tuple{true, false, "v1"}, {false, true, "v2"}}) {
    nic.roce_v1 = v1;
    nic.roce_v2 = v2;
    EXPECT_EQ(row_of(topology_tables(machine), "eth0")[2], shown);
  }
  nic.roce_v2 = false;
  EXPECT_EQ(row_of(topology_tables(machine), "eth0")[2], "25") << "neither version is known";
  for (const auto& [kind, shown] :
       {std::pair{NicKind::kInfiniBand, "InfiniBand"}, {NicKind::kIwarp, "iWARP"}}) {
    nic.kind = kind;
    EXPECT_EQ(row_of(topology_tables(machine), "eth0")[1], shown);
  }
}

TEST(TopologyTables, ShowGpusAndTheirDistanceToNics) {
  topology::Machine machine = reported_machine();
  machine.nics[0].pci_path = "/sys/devices/pci0000:17/0000:17:00.0/0000:18:00.0";
  topology::Gpu gpu;
  gpu.name = "H200";
  gpu.memory_bytes = 140.0 * static_cast<double>(kGiB);
  gpu.pci_path = "/sys/devices/pci0000:17/0000:17:00.0/0000:19:00.0";
  machine.gpus = {gpu};
  const std::string text = topology_tables(machine);
  EXPECT_EQ(row_of(text, "0"), (std::vector<std::string>{"0", "H200", "140", "GiB", "-", "0000:19:00.0"}));
  EXPECT_EQ(row_of(text, "GPU0"), (std::vector<std::string>{"GPU0", "X", "PIX", "-"}));
  EXPECT_MENTIONS(text, "PIX one PCIe switch at most");
}

class ReachReport : public ::testing::Test {
 protected:
  ReachReport() {
    machine_.nics.push_back(reported_nic("ib0", NicKind::kInfiniBand, "10.0.0.2"));
    machine_.nics.push_back(reported_nic("docker0", NicKind::kTcp, "172.17.0.1"));
    machine_.nics.back().usable = false;
    topology::Host here, there;
    here.name = "here";
    here.nics = machine_.nics;
    there.name = "there";
    there.nics = {reported_nic("ib7", NicKind::kInfiniBand, "10.0.0.3"),
                  reported_nic("eth7", NicKind::kTcp, "10.0.0.4")};
    others_.hosts = {here, there};
  }
  topology::Machine machine_ = reported_machine();
  topology::ClusterFile others_;
};

TEST_F(ReachReport, PairsUsableNicsWithThoseOfOtherHosts) {
  const auto pairs = reach_pairs(machine_, others_);
  ASSERT_EQ(pairs.size(), 4U);
  EXPECT_EQ(pairs[0].here->name, "eth0");
  EXPECT_EQ(pairs[0].there->name, "ib7");
  EXPECT_EQ(pairs[0].by, "tcp") << "what both have";
  EXPECT_EQ(pairs[1].by, "tcp");
  EXPECT_EQ(pairs[1].reach.chance, topology::Chance::kYes);
  EXPECT_EQ(pairs[2].here->name, "ib0");
  EXPECT_EQ(pairs[2].by, "infiniband");
  EXPECT_EQ(pairs[3].by, "tcp");
  const auto row = row_of(reach_table(pairs), "ib0");
  EXPECT_EQ((std::vector<std::string>{row.begin(), row.begin() + 4}),
            (std::vector<std::string>{"ib0", "there", "ib7", "infiniband"}));
  const Json json = Json::parse(topology_json(machine_, &pairs));
  ASSERT_EQ(json.at("reach").size(), 4U);
  EXPECT_EQ(json.at("reach")[1].at("from"), "eth0");
  EXPECT_EQ(json.at("reach")[1].at("to"), "there/eth7");
  EXPECT_EQ(json.at("reach")[1].at("reaches"), "yes");
}

TEST_F(ReachReport, SaysThatThereIsNobodyToReach) {
  others_.hosts.pop_back();
  const auto pairs = reach_pairs(machine_, others_);
  EXPECT_TRUE(pairs.empty());
  EXPECT_MENTIONS(reach_table(pairs), "No NIC of another host to reach");
  EXPECT_EQ(Json::parse(topology_json(machine_, &pairs)).at("reach"), Json::array());
  EXPECT_FALSE(Json::parse(topology_json(machine_, nullptr)).contains("reach"));
}

TEST_F(ReachReport, JsonTakesAnyBytes) {
  machine_.nics[0].driver = "\xff\xfe";
  EXPECT_NO_THROW(Json::parse(topology_json(machine_, nullptr)));
}

TEST(FleetTables, CountEqualDevicesAndNameTheFabrics) {
  topology::ClusterFile file;
  topology::Host host;
  host.cluster = "A";
  topology::Device fast, slow;
  fast.name = "fast";
  fast.flops_per_second = 250e12;
  slow.name = "slow";
  slow.flops_per_second = 12.5e12;
  host.devices = {fast, fast, slow};
  host.nics = {reported_nic("ib0", NicKind::kInfiniBand, "")};
  host.nics[0].rate_bits_per_second = 200'000'000'000;
  for (const char* name : {"A0", "A1"}) {
    host.name = name;
    file.hosts.push_back(host);
  }
  host.name = "B0";
  host.cluster = "B";
  host.devices.clear();
  host.nics.clear();
  file.hosts.push_back(host);
  file.fabrics = {{"ib-A", "", "", 23e9, 2e-6}, {"", "A", "B", 1e9, 5e-4}};
  const std::string text = fleet_tables(file);
  EXPECT_MENTIONS(text, "A        2      2 fast of 250 TFLOP/s, 1 slow of 12.5 TFLOP/s  ib0 200 Gbit/s\n");
  EXPECT_EQ(row_of(text, "B"), (std::vector<std::string>{"B", "1"}));
  EXPECT_MENTIONS(text, "ib-A                      184 Gbit/s  2 us\n");
  EXPECT_MENTIONS(text, "plain Ethernet  A     B   8 Gbit/s    500 us\n");
}

}  // namespace
}  // namespace tombolo::tools
