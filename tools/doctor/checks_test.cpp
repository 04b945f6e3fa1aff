#include "tools/doctor/checks.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "base/format.h"
#include "base/units.h"

namespace tombolo::doctor {
namespace {

namespace fs = std::filesystem;

class Doctor : public ::testing::Test {
 protected:
  Doctor() {
    std::string pattern = (fs::temp_directory_path() / "tombolo-doctor-XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
    facts_.root = root_;
    facts_.open_files_limit = 65536;
    facts_.locked_memory_limit = UINT64_MAX;
    facts_.load = [](const std::string&) { return std::string(); };
    facts_.plugin = "/usr/lib/libnccl-net-tombolo.so";
    setting("net/core/rmem_max", "16777216");
    setting("net/core/wmem_max", "16777216");
    setting("net/ipv4/tcp_rmem", "4096\t131072\t16777216");
    setting("net/ipv4/tcp_wmem", "4096\t131072\t16777216");
    setting("net/ipv4/tcp_congestion_control", "cubic");
    setting("net/ipv4/tcp_available_congestion_control", "reno cubic bbr");
    setting("net/ipv4/tcp_mtu_probing", "1");
    add_nic("eth0", topology::NicKind::kTcp);
  }
  ~Doctor() override { fs::remove_all(root_); }

  void setting(const std::string& name, const std::string& value) {
    fs::path file = root_ / "proc/sys" / name;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << value << "\n";
  }
  topology::Nic& add_nic(const std::string& name, topology::NicKind kind) {
    topology::Nic nic;
    nic.name = name;
    nic.kind = kind;
    nic.state = topology::NicState::kUp;
    nic.rate_bits_per_second = 100'000'000'000;
    nic.mtu = 1500;
    facts_.machine.nics.push_back(nic);
    return facts_.machine.nics.back();
  }
  Check find(const std::vector<Check>& checks, const std::string& name) {
    for (const Check& each : checks) {
      if (each.name == name) return each;
    }
    ADD_FAILURE() << "there is no check '" << name << "'";
    return {};
  }
  Check find(const std::string& name) { return find(check_all(facts_), name); }

  fs::path root_;
  Facts facts_;
};

TEST_F(Doctor, WarnsWhereMatrixProductsAreFarBelowWhatTheInstructionsPromise) {
  using compute::InstructionSet;
  facts_.products = {InstructionSet::kAvx512, InstructionSet::kAvx512, 108e9, 118e9};
  EXPECT_EQ(find("matrix products").status, Status::kOk);
  EXPECT_EQ(find("matrix products").seen, "avx512 kernels, 108 GFLOP/s on one core (92 % of its units' 118)");
  facts_.products->attained = 40e9;
  EXPECT_EQ(find("matrix products").status, Status::kWarning);
  EXPECT_NE(find("matrix products").advice.find("far below"), std::string::npos);
  facts_.products->used = InstructionSet::kAvx2;
  EXPECT_NE(find("matrix products").advice.find("TOMBOLO_INSTRUCTION_SET"), std::string::npos);
  facts_.products.reset();
  facts_.why_no_products = "TOMBOLO_INSTRUCTION_SET=avx512: this processor has avx2 at most";
  EXPECT_EQ(find("matrix products").status, Status::kFailed);
}

TEST_F(Doctor, FindsAHealthyRdmaMachineHealthy) {
  facts_.machine.nics.clear();
  add_nic("ib0", topology::NicKind::kInfiniBand);
  for (const Check& each : check_all(facts_)) {
    EXPECT_EQ(each.status, Status::kOk) << each.name << ": " << each.seen << " " << each.advice;
    EXPECT_EQ(each.advice, "") << each.name;
    EXPECT_NE(each.seen, "") << each.name;
  }
}

TEST_F(Doctor, FailsWithoutAnyUsableNic) {
  facts_.machine.nics[0].usable = false;
  EXPECT_EQ(find("NICs").status, Status::kFailed);
}

TEST_F(Doctor, WarnsWithoutRdmaAndSaysNothingOfLockedMemoryThen) {
  facts_.locked_memory_limit = 64 * kKiB;
  EXPECT_EQ(find("RDMA").status, Status::kWarning);
  for (const Check& each : check_all(facts_)) EXPECT_NE(each.name, "locked memory");
}

TEST_F(Doctor, FailsOnATightLimitOfLockedMemoryWithRdma) {
  add_nic("ib0", topology::NicKind::kInfiniBand);
  facts_.locked_memory_limit = 64 * kKiB;
  Check check = find("locked memory");
  EXPECT_EQ(check.status, Status::kFailed);
  EXPECT_EQ(check.seen, "64 KiB");
  EXPECT_NE(check.advice.find("ulimit -l"), std::string::npos);
}

TEST_F(Doctor, NoticesAlikeNicsWithUnlikeMtu) {
  add_nic("eth1", topology::NicKind::kTcp).mtu = 9000;
  Check check = find("MTU");
  EXPECT_EQ(check.status, Status::kWarning);
  EXPECT_NE(check.seen.find("eth0 has 1500 and eth1 has 9000"), std::string::npos) << check.seen;
}

TEST_F(Doctor, PointsOutBridgesThatNcclMightPick) {
  topology::Nic& bridge = add_nic("docker0", topology::NicKind::kTcp);
  bridge.role = topology::NicRole::kContainerBridge;
  bridge.usable = false;
  Check check = find("container bridges");
  EXPECT_EQ(check.seen, "docker0");
  EXPECT_NE(check.advice.find("NCCL_SOCKET_IFNAME=eth0"), std::string::npos) << check.advice;
}

TEST_F(Doctor, ReadsTheKernelsSettings) {
  setting("net/core/rmem_max", "212992");
  setting("net/ipv4/tcp_wmem", "4096 16384 65536");
  setting("net/ipv4/tcp_available_congestion_control", "reno cubic");
  setting("kernel/yama/ptrace_scope", "1");
  EXPECT_EQ(find("net.core.rmem_max").status, Status::kWarning);
  EXPECT_EQ(find("net.core.rmem_max").seen, "at most 208 KiB");
  EXPECT_EQ(find("net.core.wmem_max").status, Status::kOk);
  EXPECT_NE(find("net.ipv4.tcp_wmem").advice.find("4096 131072 8388608"), std::string::npos)
      << find("net.ipv4.tcp_wmem").advice;
  EXPECT_EQ(find("congestion control").status, Status::kWarning);
  EXPECT_EQ(find("ptrace scope").status, Status::kWarning);
}

TEST_F(Doctor, WarnsOfLargeFramesWithoutPathMtuProbing) {
  setting("net/ipv4/tcp_mtu_probing", "0");
  EXPECT_EQ(find("path MTU").status, Status::kOk);
  facts_.machine.nics[0].mtu = 9000;
  EXPECT_EQ(find("path MTU").status, Status::kWarning);
}

TEST_F(Doctor, SaysWhyClustersCannotBeEmulated) {
  facts_.why_no_namespaces = "unshare: Operation not permitted";
  EXPECT_EQ(find("namespaces").status, Status::kWarning);
  EXPECT_EQ(find("namespaces").seen, facts_.why_no_namespaces);
}

TEST_F(Doctor, NeedsVerbsOnlyWhereThereIsRdmaHardware) {
  facts_.load = [](const std::string& library) { return library + ": cannot open shared object file"; };
  facts_.plugin.clear();
  EXPECT_EQ(find("libibverbs").status, Status::kWarning);
  EXPECT_EQ(find("NCCL").status, Status::kOk);
  EXPECT_EQ(find("NCCL plugin").status, Status::kWarning);
  add_nic("ib0", topology::NicKind::kInfiniBand);
  facts_.machine.gpus.emplace_back();
  EXPECT_EQ(find("libibverbs").status, Status::kFailed);
  EXPECT_EQ(find("NCCL").status, Status::kWarning);
  EXPECT_EQ(find("NCCL plugin").status, Status::kFailed);
}

TEST_F(Doctor, ChecksTheClusterFileAgainstTheMachine) {
  topology::ClusterFile cluster;
  topology::Host host;
  host.name = "node1";
  host.cluster = "A";
  host.nics = {facts_.machine.nics[0]};
  host.nics[0].addresses = {"10.0.0.1"};
  host.nics.push_back(host.nics[0]);
  host.nics[1].name = "eth7";
  host.nics[1].addresses = {"10.0.0.2"};
  cluster.hosts.push_back(host);
  std::string path = root_ / "cluster.json";
  cluster.save(path);
  auto checks = check_cluster_file(path, facts_, "node1");
  EXPECT_EQ(find(checks, "cluster file").status, Status::kOk);
  EXPECT_EQ(find(checks, "NIC eth0").status, Status::kOk);
  EXPECT_EQ(find(checks, "NIC eth7").status, Status::kFailed);
  EXPECT_EQ(find(check_cluster_file(path, facts_, "node2"), "this host").status, Status::kFailed);
  cluster.emulated = true;
  cluster.save(path);
  EXPECT_EQ(find(check_cluster_file(path, facts_, "node2"), "this host").status, Status::kOk);
  EXPECT_EQ(find(check_cluster_file(root_ / "none.json", facts_, "node1"), "cluster file").status,
            Status::kFailed);
}

TEST_F(Doctor, FindsTheWayToAPeer) {
  auto checks = check_peer("127.0.0.1", facts_);
  ASSERT_EQ(checks.size(), 1U);
  EXPECT_EQ(checks[0].status, Status::kOk);
  EXPECT_NE(checks[0].seen.find("127.0.0.1 from 127.0.0.1"), std::string::npos) << checks[0].seen;
  EXPECT_EQ(check_peer("no-such-host.invalid", facts_)[0].status, Status::kFailed);
}

}  // namespace
}  // namespace tombolo::doctor
