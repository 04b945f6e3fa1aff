// NICs, limits and settings at the edges; checks_test.cpp has the ordinary machine.
#include <gtest/gtest.h>

#include <tuple>

#include "base/temporary_folder.h"
#include "base/units.h"
#include "tools/cli/testing.h"
#include "tools/doctor/checks.h"

namespace tombolo::doctor {
namespace {

class MachineChecks : public ::testing::Test {
 protected:
  MachineChecks() { facts_.root = folder_.path(); }

  topology::Nic& add(const std::string& name, topology::NicKind kind, int mtu) {
    topology::Nic nic;
    nic.name = name;
    nic.kind = kind;
    nic.mtu = mtu;
    nic.state = topology::NicState::kUp;
    facts_.machine.nics.push_back(nic);
    return facts_.machine.nics.back();
  }
  static const Check* find(const std::vector<Check>& checks, const std::string& name) {
    for (const Check& each : checks)
      if (each.name == name) return &each;
    return nullptr;
  }
  Check kernel(const std::string& name) const {
    const std::vector<Check> checks = check_kernel(facts_);
    const Check* found = find(checks, name);
    EXPECT_NE(found, nullptr) << name;
    return found == nullptr ? Check() : *found;
  }

  TemporaryFolder folder_;
  Facts facts_;
};

TEST_F(MachineChecks, FewOpenFilesAreAWarning) {
  facts_.open_files_limit = 1024;
  EXPECT_EQ(check_limits(facts_).at(0).status, Status::kWarning);
  EXPECT_EQ(check_limits(facts_).at(0).seen, "1024");
  EXPECT_MENTIONS(check_limits(facts_).at(0).advice, "ulimit -n 65536");
  facts_.open_files_limit = 4096;
  EXPECT_EQ(check_limits(facts_).at(0).status, Status::kOk);
  facts_.open_files_limit = UINT64_MAX;
  EXPECT_EQ(check_limits(facts_).at(0).seen, "unlimited");
}

TEST_F(MachineChecks, TwoGibibytesOfLockedMemoryAreEnough) {
  add("ib0", topology::NicKind::kInfiniBand, 4092);
  for (const auto& [limit, seen, status] : {std::tuple{2 * kGiB, "2 GiB", Status::kOk},
                                            {2 * kGiB - 1, "2.00 GiB", Status::kFailed},
                                            {std::uint64_t{UINT64_MAX}, "unlimited", Status::kOk}}) {
    facts_.locked_memory_limit = limit;
    const auto checks = check_nics(facts_);
    const Check* check = find(checks, "locked memory");
    ASSERT_NE(check, nullptr);
    EXPECT_EQ(check->status, status) << seen;
    EXPECT_EQ(check->seen, seen);
  }
}

TEST_F(MachineChecks, OnlyAlikeNicsOfKnownMtuNeedTheSame) {
  add("eth0", topology::NicKind::kTcp, 1500);
  add("ib0", topology::NicKind::kInfiniBand, 4092);
  add("eth1", topology::NicKind::kTcp, 0);
  add("eth2", topology::NicKind::kTcp, 9000).rate_bits_per_second = 1;
  add("eth3", topology::NicKind::kTcp, 9000).usable = false;
  EXPECT_EQ(find(check_nics(facts_), "MTU")->status, Status::kOk);
  EXPECT_EQ(find(check_nics(facts_), "MTU")->seen, "eth0 1500, ib0 4092, eth1 0, eth2 9000");
  add("eth4", topology::NicKind::kTcp, 9000);
  EXPECT_EQ(find(check_nics(facts_), "MTU")->status, Status::kWarning);
}

TEST_F(MachineChecks, ABridgeThatIsDownIsNoMatter) {
  add("eth0", topology::NicKind::kTcp, 1500);
  topology::Nic& bridge = add("docker0", topology::NicKind::kTcp, 1500);
  bridge.role = topology::NicRole::kContainerBridge;
  bridge.usable = false;
  bridge.state = topology::NicState::kDown;
  EXPECT_EQ(find(check_nics(facts_), "container bridges"), nullptr);
  bridge.state = topology::NicState::kUnknown;
  EXPECT_NE(find(check_nics(facts_), "container bridges"), nullptr);
}

TEST_F(MachineChecks, SettingsThatCannotBeReadAreSaidToBe) {
  EXPECT_EQ(kernel("net.core.rmem_max").status, Status::kWarning);
  EXPECT_EQ(kernel("net.core.rmem_max").seen, "not readable in this namespace");
  EXPECT_EQ(kernel("congestion control").seen, "unknown (available: unknown)");
  EXPECT_EQ(kernel("path MTU").seen, "tcp_mtu_probing=unknown");
  EXPECT_EQ(kernel("path MTU").status, Status::kOk) << "no NIC has large frames";
  EXPECT_EQ(kernel("ptrace scope").seen, "not restricted");
  EXPECT_EQ(kernel("clock").seen, "unknown");
}

TEST_F(MachineChecks, SettingsThatMakeNoSenseCountAsNothing) {
  folder_.write("proc/sys/net/core/rmem_max", "lots\n");
  EXPECT_EQ(kernel("net.core.rmem_max").status, Status::kWarning);
  EXPECT_EQ(kernel("net.core.rmem_max").seen, "at most 0 B");
}

TEST_F(MachineChecks, NamesTheWholeSettingOfTcp) {
  folder_.write("proc/sys/net/core/wmem_max", "4194303\n");
  EXPECT_MENTIONS(kernel("net.core.wmem_max").advice, "sysctl -w net.core.wmem_max=\"8388608\"");
  folder_.write("proc/sys/net/core/wmem_max", "4194304\n");
  EXPECT_EQ(kernel("net.core.wmem_max").status, Status::kOk);
}

TEST_F(MachineChecks, ASlowClockIsAWarning) {
  const std::string file = "sys/devices/system/clocksource/clocksource0/current_clocksource";
  for (const auto& [source, status] : {std::pair{"tsc", Status::kOk},
                                       {"kvm-clock", Status::kOk},
                                       {"hpet", Status::kWarning},
                                       {"acpi_pm", Status::kWarning}}) {
    folder_.write(file, std::string(source) + "\n");
    EXPECT_EQ(kernel("clock").status, status) << source;
    EXPECT_EQ(kernel("clock").seen, source);
  }
}

}  // namespace
}  // namespace tombolo::doctor
