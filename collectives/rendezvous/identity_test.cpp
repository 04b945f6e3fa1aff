#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"
#include "collectives/rendezvous/bootstrap.h"

namespace tombolo::collectives {
namespace {

// Clears every variable that could name a launcher, and whatever the test sets.
class IdentityTest : public testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void clear() {
    for (const char* name :
         {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE",
          "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_LAUNCH_NODE_IPADDR", "SLURM_STEP_NODELIST",
          "SLURM_JOB_NODELIST", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
          "OMPI_COMM_WORLD_LOCAL_SIZE", "TOMBOLO_PORT"}) {
      ::unsetenv(name);
    }
  }
  static void set(const char* name, const char* value) { ::setenv(name, value, 1); }
  static void expect_rejected(const std::vector<std::string>& words) {
    try {
      Identity::from_environment();
      FAIL() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
      for (const auto& word : words)
        EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  }
};

TEST_F(IdentityTest, IsASingleRankWithoutALauncher) {
  const Identity identity = Identity::from_environment();
  EXPECT_EQ(identity.size, 1);
  EXPECT_EQ(identity.source, "single");
}

TEST_F(IdentityTest, ReadsTorchrun) {
  set("RANK", "3");
  set("WORLD_SIZE", "8");
  set("LOCAL_RANK", "1");
  set("MASTER_ADDR", "10.0.0.9");
  set("MASTER_PORT", "1234");
  Identity identity = Identity::from_environment();
  EXPECT_EQ(identity.rank, 3);
  EXPECT_EQ(identity.size, 8);
  EXPECT_EQ(identity.local_rank, 1);
  EXPECT_EQ(identity.address, "10.0.0.9");
  EXPECT_EQ(identity.port, 1234);
  EXPECT_EQ(identity.source, "torchrun");
  set("TORCHELASTIC_USE_AGENT_STORE", "True");
  EXPECT_EQ(Identity::from_environment().port, 1235);
  set("TOMBOLO_PORT", "77");
  EXPECT_EQ(Identity::from_environment().port, 77);
}

TEST_F(IdentityTest, ReadsSlurm) {
  set("SLURM_PROCID", "1");
  set("SLURM_NTASKS", "2");
  set("SLURM_LOCALID", "0");
  set("SLURM_LAUNCH_NODE_IPADDR", "10.1.1.1");
  const Identity identity = Identity::from_environment();
  EXPECT_EQ(identity.rank, 1);
  EXPECT_EQ(identity.address, "10.1.1.1");
  EXPECT_EQ(identity.source, "slurm");
}

TEST_F(IdentityTest, FindsRankZeroOnTheFirstHostOfTheStepNotWhereItWasTyped) {
  set("SLURM_PROCID", "1");
  set("SLURM_NTASKS", "2");
  set("SLURM_LAUNCH_NODE_IPADDR", "10.1.1.1");  // a login node
  const std::pair<const char*, const char*> lists[] = {{"node[03-08,11]", "node03"},
                                                       {"node7", "node7"},
                                                       {"a1,b2", "a1"},
                                                       {"node[5],other[1-2]", "node5"},
                                                       {"rack[1-2]n[00-31]x", "rack1n00x"},
                                                       {"gpu-a[10,12-14]", "gpu-a10"}};
  for (const auto& [list, host] : lists) {
    set("SLURM_JOB_NODELIST", list);
    EXPECT_EQ(Identity::from_environment().address, host) << list;
  }
  set("SLURM_STEP_NODELIST", "step[2-3]");
  EXPECT_EQ(Identity::from_environment().address, "step2") << "the step may run on a part of the allocation";
  for (const char* odd : {"node[03-08", "node[]", "node[-3]", ",a1"}) {
    set("SLURM_STEP_NODELIST", odd);
    expect_rejected({"SLURM_STEP_NODELIST", odd, "MASTER_ADDR"});
  }
  set("MASTER_ADDR", "10.2.2.2");
  EXPECT_EQ(Identity::from_environment().address, "10.2.2.2");
}

TEST_F(IdentityTest, AsksWhereRankZeroIsWhenSlurmDoesNotSay) {
  set("SLURM_PROCID", "1");
  set("SLURM_NTASKS", "2");
  expect_rejected({"SLURM_JOB_NODELIST", "MASTER_ADDR"});
  set("SLURM_NTASKS", "2");
  set("SLURM_PROCID", "0");
  set("SLURM_NTASKS", "1");
  EXPECT_EQ(Identity::from_environment().address, "127.0.0.1");
}

TEST_F(IdentityTest, IsSingleInsideAPlainSlurmAllocation) {
  set("SLURM_NTASKS", "2");
  EXPECT_EQ(Identity::from_environment().source, "single");
}

TEST_F(IdentityTest, ReadsOpenMpiOnOneHost) {
  set("OMPI_COMM_WORLD_RANK", "1");
  set("OMPI_COMM_WORLD_SIZE", "2");
  set("OMPI_COMM_WORLD_LOCAL_SIZE", "2");
  const Identity identity = Identity::from_environment();
  EXPECT_EQ(identity.rank, 1);
  EXPECT_EQ(identity.address, "127.0.0.1");
  EXPECT_EQ(identity.source, "open mpi");
}

TEST_F(IdentityTest, AsksWhereRankZeroIsWhenOpenMpiSpansHosts) {
  set("OMPI_COMM_WORLD_RANK", "1");
  set("OMPI_COMM_WORLD_SIZE", "2");
  set("OMPI_COMM_WORLD_LOCAL_SIZE", "1");
  expect_rejected({"MASTER_ADDR"});
}

TEST_F(IdentityTest, RejectsHalfSetAndOddValues) {
  set("RANK", "0");
  expect_rejected({"RANK", "WORLD_SIZE"});
  set("WORLD_SIZE", "two");
  expect_rejected({"WORLD_SIZE='two'"});
  set("WORLD_SIZE", "0");
  expect_rejected({"WORLD_SIZE='0'"});
  set("WORLD_SIZE", "2");
  expect_rejected({"MASTER_ADDR"});
  set("MASTER_ADDR", "host");
  set("RANK", "2");
  expect_rejected({"RANK=2", "WORLD_SIZE=2"});
  set("RANK", "1x");
  expect_rejected({"RANK='1x'"});
  set("RANK", "1");
  set("MASTER_PORT", "70000");
  expect_rejected({"MASTER_PORT='70000'"});
}

}  // namespace
}  // namespace tombolo::collectives
