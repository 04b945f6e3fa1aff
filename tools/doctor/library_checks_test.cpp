// Libraries at the edges; checks_test.cpp has the ordinary machine.
#include <gtest/gtest.h>

#include "tools/cli/testing.h"
#include "tools/doctor/checks.h"

namespace tombolo::doctor {
namespace {

class LibraryChecks : public ::testing::Test {
 protected:
  LibraryChecks() {
    facts_.plugin = "/opt/libnccl-net-tombolo.so";
    facts_.load = [this](const std::string& library) {
      return library == missing_ ? library + ": cannot open shared object file" : std::string();
    };
  }
  Check find(const std::string& name) const {
    for (const Check& each : check_libraries(facts_))
      if (each.name == name) return each;
    ADD_FAILURE() << "no check is called " << name;
    return {};
  }
  Facts facts_;
  std::string missing_;
};

TEST_F(LibraryChecks, AnRdmaDeviceThatOnlyCarriesTcpNeedsVerbsToo) {
  missing_ = "libibverbs.so.1";
  topology::Nic nic;
  nic.kind = topology::NicKind::kTcp;
  facts_.machine.nics = {nic};
  EXPECT_EQ(find("libibverbs").status, Status::kWarning);
  facts_.machine.nics[0].rdma_device = "mlx5_0";
  EXPECT_EQ(find("libibverbs").status, Status::kFailed);
  EXPECT_MENTIONS(find("libibverbs").seen, "cannot open shared object file");
  EXPECT_MENTIONS(find("libibverbs").advice, "libibverbs1");
}

TEST_F(LibraryChecks, AnEmulatedNicNeedsNoVerbs) {
  missing_ = "libibverbs.so.1";
  topology::Nic nic;
  nic.kind = topology::NicKind::kInfiniBand;
  nic.emulated = true;
  facts_.machine.nics = {nic};
  EXPECT_EQ(find("libibverbs").status, Status::kWarning);
}

TEST_F(LibraryChecks, HwlocIsNeverNeeded) {
  missing_ = "libhwloc.so.15";
  EXPECT_EQ(find("hwloc").status, Status::kWarning);
  EXPECT_EQ(find("libibverbs").status, Status::kOk);
}

TEST_F(LibraryChecks, UcxMayBeMissing) {
  EXPECT_EQ(find("UCX").seen, "libucp.so.0 loads");
  missing_ = "libucp.so.0";
  EXPECT_EQ(find("UCX").status, Status::kOk);
  EXPECT_MENTIONS(find("UCX").seen, "libucp.so.0 is not here");
}

TEST_F(LibraryChecks, NcclAndNvmlAreForGpus) {
  for (const auto& [name, file] : {std::pair{"NVML", "libnvidia-ml.so.1"}, {"NCCL", "libnccl.so.2"}}) {
    facts_.machine.gpus.clear();
    missing_ = file;
    EXPECT_EQ(find(name).status, Status::kOk) << name;
    EXPECT_EQ(find(name).advice, "") << name;
    EXPECT_MENTIONS(find(name).seen, "neither is a GPU");
    facts_.machine.gpus.resize(1);
    EXPECT_EQ(find(name).status, Status::kWarning) << name;
    EXPECT_MENTIONS(find(name).advice, "LD_LIBRARY_PATH");
    missing_.clear();
    EXPECT_EQ(find(name).seen, std::string(file) + " loads");
  }
}

TEST_F(LibraryChecks, APluginThatDoesNotLoadIsAFailureEverywhere) {
  EXPECT_MENTIONS(find("NCCL plugin").seen, "NCCL_NET_PLUGIN=/opt/libnccl-net-tombolo.so");
  missing_ = facts_.plugin;
  EXPECT_EQ(find("NCCL plugin").status, Status::kFailed);
  EXPECT_MENTIONS(find("NCCL plugin").advice, "rebuild it");
}

}  // namespace
}  // namespace tombolo::doctor
