// Runs tombolo doctor on this machine, as one process. tests/netns/doctor_test.py runs it between hosts.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "planner/testing/testing.h"
#include "tools/cli/testing_command.h"

namespace tombolo::tools {
namespace {

class DoctorCommand : public CommandTest {
 protected:
  Json checks_of(std::vector<std::string> more) {
    more.insert(more.begin(), {"doctor", "--json"});
    const int code = run(more);
    const Json report = Json::parse(out_);
    bool failed = false;
    for (const Json& check : report.at("checks")) {
      failed = failed || check.at("status") == "failed";
      if (check.contains("advice")) {
        EXPECT_NE(check.at("advice"), "") << check;
      }
      EXPECT_NE(check.at("seen"), "") << check;
    }
    EXPECT_EQ(code, failed ? kExitFailed : kExitOk) << out_;
    EXPECT_EQ(report.at("host"), "here");
    return report.at("checks");
  }
  static Json find(const Json& checks, const std::string& name) {
    for (const Json& check : checks)
      if (check.at("name") == name) return check;
    ADD_FAILURE() << "no check is called \"" << name << "\": " << checks;
    return {};
  }
  // Alone, on a host of this name, whatever starts the tests.
  TemporaryVariable host_{"TOMBOLO_HOST", "here"}, cluster_{"TOMBOLO_CLUSTER"}, size_{"WORLD_SIZE"},
      rank_{"RANK"};
};

TEST_F(DoctorCommand, PrintsEveryCheckAndFailsWhereOneFailed) {
  const Json checks = checks_of({});
  for (const char* name : {"open files", "congestion control", "namespaces", "matrix products", "libibverbs"})
    EXPECT_EQ(find(checks, name).at("name"), name);
}

TEST_F(DoctorCommand, ChecksTheClusterFileOfTheOptionAndElseThatOfTheVariable) {
  auto cluster = planner::testing::make_cluster({{"a", 1}}, 1e9);
  cluster.save(file("other.json"));
  cluster.hosts[0].name = "here";
  cluster.links.clear();
  cluster.save(file("mine.json"));
  const TemporaryVariable variable("TOMBOLO_CLUSTER", file("other.json"));
  EXPECT_MENTIONS(find(checks_of({}), "this host").at("seen").get<std::string>(), "'here' is not among a0");
  const Json checks = checks_of({"--cluster", file("mine.json")});
  EXPECT_EQ(find(checks, "cluster file").at("status"), "ok");
  EXPECT_EQ(find(checks, "NIC eth").at("status"), "failed") << "this machine has no NIC of that name";
  EXPECT_EQ(find(checks_of({"--cluster", file("none.json")}), "cluster file").at("status"), "failed");
}

TEST_F(DoctorCommand, ChecksEveryPeerThatIsNamed) {
  const Json checks = checks_of({"--peer", "127.0.0.1", "--peer", "no-such-host.invalid"});
  // Whether the loopback interface is one that Tombolo leaves out depends on the machine.
  EXPECT_NE(find(checks, "peer 127.0.0.1").at("status"), "failed");
  EXPECT_MENTIONS(find(checks, "peer 127.0.0.1").at("seen").get<std::string>(), "127.0.0.1 from 127.0.0.1");
  EXPECT_EQ(find(checks, "peer no-such-host.invalid").at("status"), "failed");
  EXPECT_EQ(run({"doctor", "--peer", "no-such-host.invalid"}), kExitFailed);
  EXPECT_MENTIONS(out_, "failed   peer no-such-host.invalid ");
  EXPECT_MENTIONS(out_, "-> check the name, /etc/hosts and DNS\n");
}

TEST_F(DoctorCommand, ChecksAJobsNcclWhereItIsAskedTo) {
  for (const Json& check : checks_of({})) EXPECT_NE(check.at("name"), "net plugin");
  const TemporaryVariable plugin("NCCL_NET_PLUGIN", file("none.so")), net("NCCL_NET", "Socket");
  const Json checks = checks_of({"--nccl"});
  EXPECT_EQ(find(checks, "net plugin").at("status"), "failed");
  EXPECT_MENTIONS(find(checks, "variables").at("seen").get<std::string>(), "NCCL_NET=Socket");
  EXPECT_EQ(find(checks, "NCCL_NET").at("status"), "failed");
}

TEST_F(DoctorCommand, RefusesWhatItDoesNotKnow) {
  refuses({"doctor", "--peer"}, {"--peer"});
  refuses({"doctor", "node1"}, {"node1"});
}

}  // namespace
}  // namespace tombolo::tools
