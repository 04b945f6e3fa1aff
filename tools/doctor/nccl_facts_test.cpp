// How a job's variables, libraries and files are found.
#include "tools/doctor/nccl_facts.h"

#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "tools/cli/testing.h"

namespace tombolo::doctor {
namespace {

using tools::TemporaryVariable;

TEST(NcclFile, SetsWhatNoEarlierSourceDidAndLeavesOthersAlone) {
  NcclVariables variables{{"NCCL_NET", {"Tombolo", "the environment"}}};
  std::vector<std::string> problems;
  read_nccl_file("/etc/nccl.conf", "# words\n\nNCCL_NET=IB\nNCCL_DEBUG=INFO\nTOMBOLO_CLUSTER=/a=b\nOTHER=1\n",
                 kUnknownRelease, variables, problems);
  EXPECT_EQ(problems, std::vector<std::string>{});
  ASSERT_EQ(variables.size(), 3U);
  EXPECT_EQ(variables["NCCL_NET"].value, "Tombolo");
  EXPECT_EQ(variables["NCCL_DEBUG"].value, "INFO");
  EXPECT_EQ(variables["NCCL_DEBUG"].source, "/etc/nccl.conf");
  EXPECT_EQ(variables["TOMBOLO_CLUSTER"].value, "/a=b");
}

TEST(NcclFile, LinesThatDoNotWhatTheySeemToAreNamed) {
  const std::string text = "NCCL_NET = Tombolo\nNCCL_DEBUG\nNCCL_ALGO=Ring\r\n";
  NcclVariables variables;
  std::vector<std::string> problems;
  read_nccl_file("f", text, 22907, variables, problems);
  ASSERT_EQ(problems.size(), 3U);
  EXPECT_MENTIONS(problems[0], "f:1: \"NCCL_NET = Tombolo\" has blanks");
  EXPECT_MENTIONS(problems[1], "f:2: \"NCCL_DEBUG\" sets nothing");
  EXPECT_MENTIONS(problems[2], "f:3: ");
  EXPECT_EQ(variables.count("NCCL_NET"), 0U) << "NCCL sets a variable whose name ends in a blank";
  EXPECT_EQ(variables["NCCL_ALGO"].value, "Ring\r");
  variables.clear();
  read_nccl_file("f", text, 23003, variables, problems);
  EXPECT_EQ(variables["NCCL_ALGO"].value, "Ring");
}

TEST(FindLibrary, LooksInThePathInOrderThenInTheLoadersCache) {
  const TemporaryFolder folder;
  folder.write("one/libnone.so", "");
  folder.write("two/libnone.so", "");
  folder.write("two/folder.so/file", "");
  const std::string path = folder.file("none") + ":" + folder.file("two") + ":" + folder.file("one");
  EXPECT_EQ(find_library("libnone.so", path), folder.file("two") + "/libnone.so");
  EXPECT_EQ(find_library("libnone.so", folder.file("one")), folder.file("one") + "/libnone.so");
  EXPECT_EQ(find_library("libnone.so", folder.file("none")), "");
  EXPECT_EQ(find_library("libnone.so", ""), "");
  EXPECT_EQ(find_library("folder.so", path), "") << "a folder is no library";
  EXPECT_EQ(find_library("/some/where.so", path), "/some/where.so");
  EXPECT_MENTIONS(find_library("libc.so.6", path), "/libc.so.6") << "every process has loaded it from there";
}

class Gathered : public ::testing::Test {
 protected:
  Gathered() {
    machine_.load = [](const std::string& library) { return library + " is not here"; };
    machine_.plugin = "/opt/libnccl-net-tombolo.so";
  }
  Facts machine_;
  const TemporaryFolder folder_;
  TemporaryVariable home_{"HOME", folder_.path().string()}, file_{"NCCL_CONF_FILE"}, net_{"NCCL_NET"},
      cluster_{"TOMBOLO_CLUSTER"};
};

TEST_F(Gathered, VariablesComeFromTheEnvironmentBeforeTheFiles) {
  folder_.write("named.conf", "NCCL_NET=IB\nTOMBOLO_CLUSTER=" + folder_.file("cluster.json") + "\n");
  folder_.write("cluster.json", "{}");
  const TemporaryVariable net("NCCL_NET", "Tombolo"), file("NCCL_CONF_FILE", folder_.file("named.conf"));
  const NcclFacts facts = gather_nccl_facts(machine_);
  EXPECT_EQ(facts.value("NCCL_NET"), "Tombolo");
  EXPECT_EQ(facts.value("NCCL_NEVER_SET"), "");
  EXPECT_EQ(facts.why_no_driver, "libcuda.so.1 is not here");
  if (!reads_named_file(facts.release))
    GTEST_SKIP() << "NCCL " << release_text(facts.release) << " knows no such file";
  EXPECT_EQ(facts.variables.at("TOMBOLO_CLUSTER").source, folder_.file("named.conf"));
  EXPECT_EQ(facts.cluster, "{}");
}

TEST_F(Gathered, ANamedFileReplacesTheOneAtHome) {
  folder_.write(".nccl.conf", "NCCL_NET=IB\n");
  NcclFacts facts = gather_nccl_facts(machine_);
  if (takes_home_from_environment(facts.release)) {
    EXPECT_EQ(facts.value("NCCL_NET"), "IB");
  }
  if (!reads_named_file(facts.release))
    GTEST_SKIP() << "NCCL " << release_text(facts.release) << " knows no such file";
  const TemporaryVariable file("NCCL_CONF_FILE", folder_.file("none.conf"));
  facts = gather_nccl_facts(machine_);
  EXPECT_EQ(facts.value("NCCL_NET"), "");
  ASSERT_EQ(facts.file_problems.size(), 1U);
  EXPECT_MENTIONS(facts.file_problems[0], "none.conf cannot be read");
}

TEST_F(Gathered, WhatCannotBeLoadedOrStartedIsTold) {
  const NcclFacts facts = gather_nccl_facts(machine_);
  EXPECT_MENTIONS(facts.load("libnccl-net-none.so").error, "libnccl-net-none.so is in no folder");
  folder_.write("text.so", "words");
  EXPECT_MENTIONS(facts.load(folder_.file("text.so")).error, "text.so");
  const LoadedPlugin no_plugin = facts.load(find_library("libm.so.6", ""));
  EXPECT_EQ(no_plugin.error, "");
  EXPECT_EQ(no_plugin.tables, std::vector<int>{});
  EXPECT_NE(facts.start(folder_.file("text.so"), 11).error, "");
  EXPECT_EQ(facts.look(folder_.file("text.so")), PathKind::kFile);
  EXPECT_EQ(facts.look(folder_.path()), PathKind::kFolder);
  EXPECT_EQ(facts.look(folder_.file("none")), PathKind::kMissing);
}

}  // namespace
}  // namespace tombolo::doctor
