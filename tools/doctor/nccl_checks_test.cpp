// What the checks of a job's NCCL say of environments that are right or wrong.
#include "tools/doctor/nccl_checks.h"

#include <gtest/gtest.h>

#include "tools/cli/testing.h"

namespace tombolo::doctor {
namespace {

constexpr const char* kPlugin = "/opt/tombolo/lib/libnccl-net-tombolo.so";

class NcclChecks : public ::testing::Test {
 protected:
  NcclChecks() {
    facts_.nccl = "/site/nvidia/nccl/lib/libnccl.so.2";
    facts_.release = 22708;
    facts_.found_by = "PyTorch 2.9.0 of /usr/bin/python3";
    facts_.plugin = kPlugin;
    facts_.gpus = 8;
    facts_.shared_bytes = std::uint64_t{1} << 30;
    facts_.load = [this](const std::string& name) {
      const auto found = libraries_.find(name);
      return found != libraries_.end() ? found->second : LoadedPlugin{name + ": cannot open", {}, {}, {}};
    };
    facts_.look = [this](const std::string& path) {
      const auto found = paths_.find(path);
      return found != paths_.end() ? found->second : PathKind::kMissing;
    };
    facts_.start = [this](const std::string&, int table) {
      started_table_ = table;
      return started_;
    };
    libraries_[kPlugin] = {{}, kPlugin, "Tombolo", {6, 7, 8, 9, 10, 11, 12}};
    started_.devices = {"tombolo0 (200 Gbit/s)"};
    set("NCCL_NET_PLUGIN", kPlugin);
    set("NCCL_NET", "Tombolo");
  }
  void set(const std::string& name, const std::string& value) {
    facts_.variables[name] = {value, "the environment"};
  }
  std::vector<Check> all() const { return check_nccl(facts_); }
  Check find(const std::string& name) const {
    for (const Check& each : all())
      if (each.name == name) return each;
    ADD_FAILURE() << "no check is called " << name;
    return {};
  }
  bool has(const std::string& name) const {
    for (const Check& each : all())
      if (each.name == name) return true;
    return false;
  }
  void expect(const std::string& name, Status status, const std::string& seen,
              const std::string& advice = "") {
    const Check check = find(name);
    EXPECT_EQ(status_name(check.status), status_name(status)) << name << ": " << check.seen;
    EXPECT_MENTIONS(check.seen, seen);
    EXPECT_MENTIONS(check.advice, advice);
  }

  NcclFacts facts_;
  std::map<std::string, LoadedPlugin> libraries_;
  std::map<std::string, PathKind> paths_;
  StartedPlugin started_;
  int started_table_ = 0;
};

TEST_F(NcclChecks, ARightEnvironmentHasNothingToChange) {
  for (const Check& each : all()) {
    EXPECT_EQ(each.status, Status::kOk) << each.name << ": " << each.seen;
    EXPECT_EQ(each.advice, "") << each.name;
  }
  expect("job's NCCL", Status::kOk, "2.27.8, /site/nvidia/nccl/lib/libnccl.so.2 (found by PyTorch 2.9.0");
  expect("net plugin", Status::kOk, "NCCL 2.27.8 takes ncclNetPlugin_v10 of /opt/tombolo");
  expect("plugin starts", Status::kOk, "tombolo0 (200 Gbit/s)");
  EXPECT_EQ(started_table_, 10);
}

TEST_F(NcclChecks, WithoutAVariableTheUsualNameIsLookedFor) {
  facts_.variables.clear();
  expect("net plugin", Status::kFailed, "NCCL_NET_PLUGIN is not set, and libnccl-net.so: cannot open",
         "a job would use NCCL's own InfiniBand or Socket network; export NCCL_NET_PLUGIN=/opt/tombolo/lib/");
  expect("NCCL_NET", Status::kWarning, "without a word", "export NCCL_NET=Tombolo");
  EXPECT_FALSE(has("plugin starts"));
  // A link by that name is as good.
  libraries_["libnccl-net.so"] = libraries_[kPlugin];
  EXPECT_EQ(find("net plugin").status, Status::kOk);
}

TEST_F(NcclChecks, APathThatIsWrongIsToldFromOneThatCannotBeRead) {
  const std::string path = "/opt/other.so";
  set("NCCL_NET_PLUGIN", path);
  expect("net plugin", Status::kFailed, "there is no such file");
  paths_[path] = PathKind::kFolder;
  expect("net plugin", Status::kFailed, "it is a folder");
  paths_[path] = PathKind::kUnreadable;
  expect("net plugin", Status::kFailed, "may not read it");
  paths_[path] = PathKind::kFile;
  libraries_[path] = {"/lib/libc.so.6: version `GLIBC_2.38' not found", {}, {}, {}};
  expect("net plugin", Status::kFailed, "GLIBC_2.38");
}

TEST_F(NcclChecks, AReleaseThatTakesNoPathIsGivenAName) {
  for (const NcclRelease release : {22005, 22703}) {
    facts_.release = release;
    expect("net plugin", Status::kFailed, "takes no path: it looks for libnccl-net-/opt/tombolo",
           "export NCCL_NET_PLUGIN=tombolo LD_LIBRARY_PATH=/opt/tombolo/lib${LD_LIBRARY_PATH:+");
  }
  set("NCCL_NET_PLUGIN", "tombolo");
  libraries_["libnccl-net-tombolo.so"] = libraries_[kPlugin];
  expect("net plugin", Status::kOk, "NCCL_NET_PLUGIN=tombolo: NCCL 2.27.3 takes ncclNetPlugin_v10");
}

TEST_F(NcclChecks, AListNeedsARelease) {
  set("NCCL_NET_PLUGIN", std::string("aws,") + kPlugin);
  EXPECT_EQ(find("net plugin").status, Status::kOk);
  facts_.release = 22605;
  expect("net plugin", Status::kFailed, "takes one library, not a list");
}

TEST_F(NcclChecks, AnotherPluginIsPassedOverOnlyWhereNcclNetNamesThisOne) {
  libraries_["aws"] = {{}, "/opt/aws/libnccl-net-aws.so", "AWS Libfabric", {10, 11}};
  set("NCCL_NET_PLUGIN", std::string("aws,") + kPlugin);
  EXPECT_EQ(find("net plugin").status, Status::kOk);
  facts_.variables.erase("NCCL_NET");
  expect("net plugin", Status::kFailed, "is the plugin \"AWS Libfabric\"");
  set("NCCL_NET_PLUGIN", "aws");
  expect("net plugin", Status::kFailed, "/opt/aws/libnccl-net-aws.so is the plugin \"AWS Libfabric\"");
}

TEST_F(NcclChecks, ALibraryWithoutATableForThisReleaseIsNoPlugin) {
  libraries_[kPlugin].tables = {};
  expect("net plugin", Status::kFailed, "is no net plugin");
  libraries_[kPlugin].tables = {11, 12};
  expect("net plugin", Status::kFailed,
         "has no net table that NCCL 2.27.8 looks for (up to v10): it has v11, v12");
}

TEST_F(NcclChecks, AnotherNetworksNameIsAFailure) {
  set("NCCL_NET", "Socket");
  expect("NCCL_NET", Status::kFailed, "NCCL_NET=Socket: NCCL uses the network of that name",
         "export NCCL_NET=Tombolo");
  set("NCCL_NET", "tombolo");
  EXPECT_EQ(find("NCCL_NET").status, Status::kOk) << "NCCL compares names in either case";
  set("TOMBOLO_NET_NAME", "IB");
  libraries_[kPlugin].name = "IB";
  EXPECT_EQ(find("NCCL_NET").status, Status::kFailed);
  set("NCCL_NET", "IB");
  EXPECT_EQ(find("NCCL_NET").status, Status::kOk);
  EXPECT_EQ(find("net plugin").status, Status::kOk);
}

TEST_F(NcclChecks, NoneAndARelativePathAreNamed) {
  set("NCCL_NET_PLUGIN", "none");
  expect("net plugin", Status::kFailed, "NCCL_NET_PLUGIN=none", "export NCCL_NET_PLUGIN=/opt");
  set("NCCL_NET_PLUGIN", "build/lib/libnccl-net-tombolo.so");
  libraries_["build/lib/libnccl-net-tombolo.so"] = libraries_[kPlugin];
  expect("net plugin", Status::kWarning, "takes ncclNetPlugin_v10", "relative path");
}

TEST_F(NcclChecks, AReleaseThatForgetsThePluginIsToldToKeepIt) {
  EXPECT_FALSE(has("later communicators"));
  facts_.release = 22809;
  expect("later communicators", Status::kWarning, "NCCL 2.28.9 forgets",
         "export NCCL_NET_PLUGIN_REF_COUNT=1");
  set("NCCL_NET_PLUGIN_REF_COUNT", "1");
  EXPECT_FALSE(has("later communicators"));
}

TEST_F(NcclChecks, APluginThatDoesNotStartIsAFailureWithItsOwnWords) {
  started_ = {"it returned NCCL's result 5",
              {{false, "NET/Tombolo : hello"}, {true, "NET/Tombolo : init: /c.json: cannot open"}},
              {}};
  expect("plugin starts", Status::kFailed, "init: /c.json: cannot open (it returned NCCL's result 5)");
  std::vector<std::string> said;
  for (const Check& each : all())
    if (each.name == "plugin says") said.push_back(fmt::format("{} {}", status_name(each.status), each.seen));
  EXPECT_EQ(said, (std::vector<std::string>{"ok hello", "warning init: /c.json: cannot open"}));
  started_ = {"it ended the process that tried it (exit code 139) ", {}, {}};
  expect("plugin starts", Status::kFailed, "exit code 139");
}

TEST_F(NcclChecks, WithoutNcclTheNewestRulesHold) {
  facts_.nccl.clear();
  facts_.release = kUnknownRelease;
  facts_.why_no_nccl = "the loader: libnccl.so.2: cannot open";
  expect("job's NCCL", Status::kWarning, "no libnccl.so.2 was found: the loader: libnccl.so.2: cannot open",
         "job's Python");
  expect("net plugin", Status::kOk, "takes ncclNetPlugin_v12");
}

TEST_F(NcclChecks, OldAndUntriedReleasesAreNamed) {
  facts_.release = 21212;
  expect("job's NCCL", Status::kFailed, "2.12.12", "too old");
  EXPECT_EQ(find("net plugin").status, Status::kFailed);
  facts_.release = kFirstUntried;
  expect("job's NCCL", Status::kWarning, "2.33.0", "not tried");
}

TEST_F(NcclChecks, VariablesAreShownWithTheirSourceAndSecretsAreNot) {
  facts_.variables["NCCL_DEBUG"] = {"INFO", "/etc/nccl.conf"};
  set("TOMBOLO_SECRET", "hunter2");
  set("NCCL_ENV_PLUGIN", "x");
  facts_.file_problems = {"f:1: \"A = b\" has blanks"};
  expect("variables", Status::kOk, "NCCL_DEBUG=INFO (of /etc/nccl.conf)");
  EXPECT_EQ(find("variables").seen.find("hunter2"), std::string::npos);
  expect("file of variables", Status::kWarning, "f:1", "without blanks");
  expect("env plugin", Status::kWarning, "NCCL_ENV_PLUGIN=x");
}

TEST_F(NcclChecks, ATunerOfAnotherLibraryIsSeen) {
  EXPECT_FALSE(has("tuner plugin"));
  libraries_["libnccl-tuner.so"] = {{}, "/opt/aws/libnccl-tuner.so", {}, {}};
  expect("tuner plugin", Status::kWarning, "/opt/aws/libnccl-tuner.so", "NCCL_TUNER_PLUGIN=none");
  set("NCCL_TUNER_PLUGIN", "none");
  EXPECT_EQ(find("tuner plugin").status, Status::kOk);
  set("NCCL_TUNER_PLUGIN", "/no/such.so");
  expect("tuner plugin", Status::kWarning, "/no/such.so: cannot open", "unset NCCL_TUNER_PLUGIN");
  libraries_["libnccl-profiler-own.so"] = {{}, "/opt/own.so", {}, {}};
  set("NCCL_PROFILER_PLUGIN", "own");
  expect("profiler plugin", Status::kOk, "/opt/own.so");
}

TEST_F(NcclChecks, TheHostNeedsADriverAndSharedMemory) {
  facts_.why_no_driver = "libcuda.so.1: cannot open";
  facts_.shared_bytes = std::uint64_t{64} << 20;
  expect("CUDA driver", Status::kFailed, "libcuda.so.1", "--gpus all");
  expect("/dev/shm", Status::kWarning, "64 MiB", "--shm-size");
  facts_.gpus = 0;
  EXPECT_FALSE(has("CUDA driver"));
  EXPECT_EQ(find("GPUs").status, Status::kWarning);
  facts_.shared_bytes.reset();
  EXPECT_FALSE(has("/dev/shm"));
}

TEST_F(NcclChecks, TheClusterFilesBytesAreShownForComparison) {
  EXPECT_EQ(nccl_agreement(facts_).at("the cluster file"), "none");
  set("TOMBOLO_CLUSTER", "/c.json");
  EXPECT_EQ(nccl_agreement(facts_).at("the cluster file"), "/c.json cannot be read");
  facts_.cluster = "123456789";
  expect("cluster file's bytes", Status::kOk, "9 bytes, content 4639de7d7ec5b239");
}

TEST_F(NcclChecks, WhatRanksMustSetAlikeIsCompared) {
  for (const char* name : {"NCCL_ALGO", "NCCL_TUNER_PLUGIN", "TOMBOLO_TUNER", "TOMBOLO_TUNER_LINK"}) {
    EXPECT_FALSE(nccl_agreement(facts_).contains(name)) << name;
    set(name, "a value");
    EXPECT_EQ(nccl_agreement(facts_).at(name), "a value");
  }
}

TEST(NcclAgreement, RanksThatDifferAreNamedWithTheirValues) {
  const NcclAgreement one{{"NCCL", "2.28.9"}, {"NCCL_ALGO", "Ring"}}, other{{"NCCL", "2.27.7"}};
  auto checks = check_nccl_agreement({{0, "a0", one}, {1, "a1", one}, {2, "b0", other}});
  ASSERT_EQ(checks.size(), 2U);
  EXPECT_EQ(checks[0].name, "NCCL alike");
  EXPECT_EQ(checks[0].status, Status::kFailed);
  EXPECT_EQ(checks[0].seen, "rank 2 on b0: 2.27.7, rank 0 on a0: 2.28.9");
  EXPECT_EQ(checks[1].seen, "rank 0 on a0: Ring, rank 2 on b0: not set");
  checks = check_nccl_agreement({{0, "a0", one}, {1, "a1", one}});
  ASSERT_EQ(checks.size(), 1U);
  EXPECT_EQ(checks[0].status, Status::kOk);
}

}  // namespace
}  // namespace tombolo::doctor
