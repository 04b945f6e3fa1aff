// What the checks say of variables that choose NICs, and of ways to GPU memory.
#include "tools/doctor/nccl_network_checks.h"

#include <gtest/gtest.h>

#include "tools/cli/testing.h"

namespace tombolo::doctor {
namespace {

using net_plugin::gpu::GpuReach;
using net_plugin::gpu::NicReach;

topology::Nic nic(const std::string& name, const std::string& address, const std::string& rdma_device = {}) {
  topology::Nic made;
  made.name = name;
  made.kind = rdma_device.empty() ? topology::NicKind::kTcp : topology::NicKind::kRoce;
  made.rdma_device = rdma_device;
  made.rdma_port = rdma_device.empty() ? 0 : 1;
  made.addresses = {address};
  made.usable = true;
  return made;
}

class NcclNetworkChecks : public ::testing::Test {
 protected:
  NcclNetworkChecks() {
    facts_.nics = {nic("eth1", "10.0.0.1"), nic("eth10", "10.0.1.1"), nic("rdma0", "10.1.0.1", "mlx5_0"),
                   nic("rdma1", "10.1.1.1", "mlx5_1")};
  }
  void set(const std::string& name, const std::string& value) {
    facts_.variables[name] = {value, "the environment"};
  }
  static void expect(const std::vector<Check>& checks, const std::string& name, Status status,
                     const std::string& seen, const std::string& advice = "") {
    for (const Check& check : checks) {
      if (check.name != name) continue;
      EXPECT_EQ(status_name(check.status), status_name(status)) << name << ": " << check.seen;
      EXPECT_MENTIONS(check.seen, seen);
      EXPECT_MENTIONS(check.advice, advice);
      return;
    }
    ADD_FAILURE() << "no check is called " << name;
  }
  void expect_filter(const std::string& name, Status status, const std::string& seen,
                     const std::string& advice = "") const {
    expect(check_nic_filters(facts_), name, status, seen, advice);
  }

  NcclFacts facts_;
};

TEST_F(NcclNetworkChecks, WithoutVariablesThereIsNothingToSay) {
  EXPECT_TRUE(check_nic_filters(facts_).empty());
  EXPECT_TRUE(check_gpu_reach(facts_).empty());
  EXPECT_TRUE(check_staging(facts_).empty());
}

TEST_F(NcclNetworkChecks, EachVariableSaysWhatItLeavesAndAllSayWhatIsLeftInTheEnd) {
  set("NCCL_SOCKET_IFNAME", "=eth1");
  set("NCCL_IB_HCA", "^mlx5_0");
  expect_filter("NCCL_SOCKET_IFNAME", Status::kOk,
                "leaves eth1 10.0.0.1, rdma0 (mlx5_0) 10.1.0.1, rdma1 (mlx5_1) 10.1.1.1");
  expect_filter("NCCL_IB_HCA", Status::kOk, "leaves eth1 10.0.0.1, eth10 10.0.1.1, rdma1 (mlx5_1) 10.1.1.1");
  expect_filter("NICs that are left", Status::kOk, "eth1 10.0.0.1, rdma1 (mlx5_1) 10.1.1.1");
}

TEST_F(NcclNetworkChecks, ANameThatIsTheBeginningOfAnotherIsToldOf) {
  set("NCCL_SOCKET_IFNAME", "eth1");
  expect_filter("NCCL_SOCKET_IFNAME", Status::kWarning, "'eth1' also takes eth10",
                "NCCL_SOCKET_IFNAME==eth1 takes whole names");
  set("NCCL_SOCKET_IFNAME", "^eth1");
  expect_filter("NCCL_SOCKET_IFNAME", Status::kWarning, "'eth1' also takes eth10",
                "NCCL_SOCKET_IFNAME=^=eth1 takes whole names");
  set("NCCL_SOCKET_IFNAME", "eth");  // a beginning on purpose
  expect_filter("NCCL_SOCKET_IFNAME", Status::kOk, "leaves eth1 10.0.0.1, eth10 10.0.1.1");
}

TEST_F(NcclNetworkChecks, ANameThatNoNicHasIsToldOf) {
  set("NCCL_IB_HCA", "=mlx5_0,mlx5_7");
  expect_filter("NCCL_IB_HCA", Status::kWarning, "no NIC here is called 'mlx5_7'", "correct the name");
}

TEST_F(NcclNetworkChecks, WhatLeavesNothingIsAFailure) {
  set("NCCL_IB_HCA", "mlx4");
  expect_filter("NCCL_IB_HCA", Status::kFailed, "NCCL_IB_HCA='mlx4' leaves none of this host's RDMA NICs",
                "would end");
  set("NCCL_SOCKET_FAMILY", "AF_INET6");
  expect_filter("NCCL_SOCKET_FAMILY", Status::kFailed, "leaves no address", "would end");
}

TEST_F(NcclNetworkChecks, AHostWithoutRdmaMayHaveTheEnvironmentOfOthers) {
  facts_.nics.resize(2);
  set("NCCL_IB_HCA", "mlx5_0");
  expect_filter("NCCL_IB_HCA", Status::kOk, "leaves eth1 10.0.0.1, eth10 10.0.1.1");
}

TEST_F(NcclNetworkChecks, OfTwoVariablesOfOneMatterOneIsNotLookedAt) {
  set("TOMBOLO_NET_NICS", "=eth10");
  set("NCCL_SOCKET_IFNAME", "=eth1");
  expect_filter("TOMBOLO_NET_NICS", Status::kOk, "leaves eth10 10.0.1.1");
  expect_filter("NCCL_SOCKET_IFNAME", Status::kWarning, "not looked at: TOMBOLO_NET_NICS is set",
                "unset one");
  expect_filter("NICs that are left", Status::kOk, "eth10 10.0.1.1");
}

TEST_F(NcclNetworkChecks, ANumberThatRdmaCannotHaveIsAFailure) {
  set("NCCL_IB_TC", "300");
  expect_filter("NCCL's variables", Status::kFailed, "NCCL_IB_TC=300: expected 0 to 255", "would end");
}

TEST_F(NcclNetworkChecks, SaysOfEveryNicHowItGetsAtGpuMemory) {
  facts_.reach["rdma0"] = {GpuReach::kDirect, false, true, "DMA-BUF", "the module is not loaded", ""};
  facts_.reach["rdma1"] = {GpuReach::kStaged, false, false, "neither", "no module", "no DMA-BUF"};
  facts_.reach["eth1"] = {GpuReach::kStaged, false, false, "its bytes go over TCP"};
  expect(check_gpu_reach(facts_), "GPU memory, rdma0", Status::kOk, "reached by the NIC: DMA-BUF");
  expect(check_gpu_reach(facts_), "GPU memory, rdma1", Status::kWarning, "goes through host memory: neither",
         "modprobe nvidia_peermem");
  expect(check_gpu_reach(facts_), "GPU memory, eth1", Status::kOk, "its bytes go over TCP");
}

TEST_F(NcclNetworkChecks, SettingsThatHoldUpCopiesAreToldOfWhereConnectionsStage) {
  facts_.cuda_variables = {{"CUDA_DEVICE_MAX_CONNECTIONS", "1"}};
  EXPECT_TRUE(check_staging(facts_).empty()) << "nothing stages";
  set("TOMBOLO_NET_GPU", "staged");
  expect(check_staging(facts_), "copies for staging", Status::kWarning, "all connections stage",
         "give it 2 or more");
  facts_.variables.clear();
  facts_.reach["rdma0"] = {GpuReach::kDirect, true, true, "nvidia_peermem and DMA-BUF"};
  expect(check_staging(facts_), "copies for staging", Status::kWarning,
         "connections that RDMA does not reach");
  set("TOMBOLO_NET_GPU", "off");
  EXPECT_TRUE(check_staging(facts_).empty());
  set("TOMBOLO_NET_GPU", "auto");
  facts_.cuda_variables = {{"CUDA_DEVICE_MAX_CONNECTIONS", "8"}, {"CUDA_LAUNCH_BLOCKING", "1"}};
  expect(check_staging(facts_), "copies for staging", Status::kWarning, "every copy waits", "for debugging");
}

}  // namespace
}  // namespace tombolo::doctor
