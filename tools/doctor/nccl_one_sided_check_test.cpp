// What the check says of one-sided operations.
#include "tools/doctor/nccl_one_sided_check.h"

#include <gtest/gtest.h>

#include "tools/cli/testing.h"

namespace tombolo::doctor {
namespace {

class NcclOneSidedCheck : public ::testing::Test {
 protected:
  NcclOneSidedCheck() {
    facts_.release = 23007;
    facts_.gpus = 8;
    topology::Nic nic;
    nic.name = "ib0";
    nic.kind = topology::NicKind::kInfiniBand;
    nic.rdma_device = "mlx5_0";
    nic.addresses = {"10.0.0.1"};
    nic.usable = true;
    facts_.nics = {nic};
  }
  void set(const std::string& name, const std::string& value) {
    facts_.variables[name] = {value, "the environment"};
  }
  void expect(Status status, const std::string& seen, const std::string& advice = "") const {
    const Check check = check_one_sided(facts_);
    EXPECT_EQ(check.name, "one-sided operations");
    EXPECT_EQ(status_name(check.status), status_name(status)) << check.seen;
    EXPECT_MENTIONS(check.seen, seen);
    EXPECT_MENTIONS(check.advice, advice);
    EXPECT_EQ(check.advice.empty(), advice.empty()) << check.advice;
  }

  NcclFacts facts_;
};

TEST_F(NcclOneSidedCheck, OffLeavesThemToNccl) {
  expect(Status::kOk, "TOMBOLO_RMA=off: NCCL's own");
  facts_.release = 22803;
  expect(Status::kOk, "NCCL 2.28.3 asks no plugin for them");
}

TEST_F(NcclOneSidedCheck, NamesTheTableAndWhatCarriesBytes) {
  set("TOMBOLO_RMA", "auto");
  set("TOMBOLO_NET_GPU", "staged");
  expect(Status::kOk, "NCCL 2.30.7 takes ncclRmaPlugin_v14; host memory by mlx5_0 where");
  set("TOMBOLO_TRANSPORTS", "tcp,shm");
  expect(Status::kOk, "ncclRmaPlugin_v14; by messages");
  set("TOMBOLO_TRANSPORTS", "rdma,tcp");
  set("TOMBOLO_RMA", "messages");
  expect(Status::kOk, "ncclRmaPlugin_v14; by messages");
  facts_.release = 23004;
  expect(Status::kOk, "ncclRmaPlugin_v13");
  facts_.release = 23102;
  expect(Status::kOk, "ncclRmaPlugin_v15");
  set("TOMBOLO_RMA", "auto");
  facts_.nics[0].kind = topology::NicKind::kTcp;
  expect(Status::kOk, "ncclRmaPlugin_v15; by messages");
}

TEST_F(NcclOneSidedCheck, WarnsOfWhatWouldNotBeUsed) {
  set("TOMBOLO_RMA", "auto");
  expect(Status::kWarning, "no device here takes GPU memory", "set TOMBOLO_NET_GPU=staged");
  facts_.reach["ib0"].reach = net_plugin::gpu::GpuReach::kDirect;
  expect(Status::kOk, "by mlx5_0");
  set("TOMBOLO_NET_GPU", "off");
  expect(Status::kWarning, "no device here takes GPU memory", "staged");
  facts_.gpus = 0;
  expect(Status::kOk, "by mlx5_0");
  facts_.release = 22907;
  expect(Status::kWarning, "TOMBOLO_RMA=auto, but NCCL 2.29.7 asks no plugin", "2.30.3");
  set("TOMBOLO_RMA", "on");
  expect(Status::kFailed, "TOMBOLO_RMA=on", "auto, messages and off");
}

}  // namespace
}  // namespace tombolo::doctor
