// What tombolo topo refuses, and a fleet. tests/process/command_test.py shows it recorded machines.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "tools/cli/testing_command.h"
#include "topology/files/cluster_file.h"

namespace tombolo::tools {
namespace {

class TopoCommand : public CommandTest {
 protected:
  TopoCommand() {
    folder_.write("fleet.json", R"({"tombolo_fleet": 1, "clusters": [
      {"name": "A", "hosts": 2, "devices": {"name": "A100-80G", "count": 4}, "nics": [{"name": "Ethernet 25G"}]}]})");
  }
};

TEST_F(TopoCommand, ExpandsAFleetIntoTablesJsonAndAClusterFile) {
  ASSERT_EQ(run({"topo", "--fleet", file("fleet.json"), "--cluster-out", file("cluster.json")}), kExitOk)
      << err_;
  EXPECT_MENTIONS(out_, "4 A100-SXM4-80GB");
  EXPECT_MENTIONS(out_, "Cluster file written to " + file("cluster.json"));
  const auto cluster = topology::ClusterFile::load(file("cluster.json"));
  EXPECT_EQ(cluster.hosts.size(), 2U);
  ASSERT_EQ(run({"topo", "--fleet", file("fleet.json"), "--json"}), kExitOk) << err_;
  EXPECT_EQ(Json::parse(out_), cluster.to_json());
  ASSERT_EQ(run({"topo", "--fleet", file("fleet.json"), "-o", file("tables.txt")}), kExitOk) << err_;
  EXPECT_EQ(out_, "");
  EXPECT_MENTIONS(folder_.read("tables.txt"), "4 A100-SXM4-80GB");
}

TEST_F(TopoCommand, RefusesFormatsThatDoNotShowWhatIsAskedFor) {
  refuses({"topo", "--fleet", file("fleet.json"), "--format", "dot"},
          {"--fleet goes with tables and JSON, not with --format dot"});
  refuses({"topo", "--reach", file("none.json"), "--format", "nccl-xml"},
          {"--reach goes with tables and JSON, not with --format nccl-xml"});
  refuses({"topo", "--format", "jpeg"}, {"--format", "jpeg"});
  refuses({"topo", "--json", "--format", "table"}, {"--json", "--format"});
}

TEST_F(TopoCommand, RefusesAFleetBesideAMachine) {
  refuses({"topo", "--fleet", file("fleet.json"), "--root", "/"}, {"--fleet", "--root"});
  refuses({"topo", "--fleet", file("fleet.json"), "--reach", file("none.json")}, {"--fleet", "--reach"});
}

TEST_F(TopoCommand, NamesTheFileThatCannotBeUsed) {
  refuses({"topo", "--reach", file("none.json")}, {"none.json"});
  refuses({"topo", "--fleet", file("none.json")}, {"none.json"});
  folder_.write("fleet.json", R"({"tombolo_fleet": 1, "clusters": []})");
  refuses({"topo", "--fleet", file("fleet.json")}, {"fleet.json:1: clusters"});
}

}  // namespace
}  // namespace tombolo::tools
