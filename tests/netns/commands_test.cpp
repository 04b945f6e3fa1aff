// Runs the commands over emulated clusters: tests what the probe finds, and which links an all-reduce loads.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "base/format.h"
#include "base/json.h"
#include "tests/process/process_watch.h"
#include "tools/emulation/emulation.h"
#include "tools/process/subprocess.h"
#include "topology/files/cluster_file.h"

namespace tombolo {
namespace {

tools::Finished tombolo_command(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), TOMBOLO_PROGRAM);
  return tools::run_program(arguments, "", std::chrono::seconds(120));
}

// The links are so slow that they limit the rate on any machine.
constexpr double kSlow = 50e6;

topology::ClusterFile probed(std::vector<std::string> arguments, std::string& output,
                             const std::string& seconds = "0.2") {
  tests::Folder folder;
  const std::string path = folder.path() / "cluster.json";
  arguments.insert(arguments.end(), {"--seconds", seconds, "--no-compute", "--out", path});
  const auto done = tombolo_command(arguments);
  output = done.output;
  EXPECT_EQ(done.exit_code, 0) << done.output << done.error;
  return topology::ClusterFile::load(path);
}

/// Expects `count` shared links, each about as fast as the slow links: streams that share a link divide its
/// rate, and their sum shows it.
topology::ClusterFile probed_with_shared_links(std::size_t count, const std::vector<std::string>& arguments,
                                               std::string& output) {
  auto cluster = probed(arguments, output, "0.4");
  EXPECT_EQ(cluster.shared_links.size(), count) << output;
  for (const auto& link : cluster.shared_links) {
    EXPECT_GT(link.bytes_per_second * 8, 0.5 * kSlow) << link.name << '\n' << output;
    EXPECT_LT(link.bytes_per_second * 8, 1.5 * kSlow) << link.name << '\n' << output;
  }
  return cluster;
}

TEST(ProbeCommand, FindsTheSlowAndTheFastNicsOfTheHolmesSetting) {
  std::string output;
  const auto cluster =
      probed({"probe", "--emulate", "holmes:slow=50mbit", "--emulation-mode", "namespaces"}, output);
  EXPECT_NE(output.find("infiniband (emulated), fabric A-ib"), std::string::npos) << output;
  EXPECT_EQ(cluster.links.size(), 2U * (6 + 2));
  for (const auto& link : cluster.links) {
    const std::string name = fmt::format("{} {} to {}", link.from_host, link.from_nic, link.to_host);
    EXPECT_TRUE(link.measured);
    EXPECT_TRUE(link.from_nic == "eth0" || link.from_host[0] == link.to_host[0]) << name;
    if (link.from_nic == "eth0") {
      EXPECT_LT(link.bytes_per_second * 8, 1.5 * kSlow) << name;
    } else {
      EXPECT_GT(link.bytes_per_second * 8, 2 * kSlow) << name;
    }
  }
  EXPECT_TRUE(cluster.shared_links.empty()) << "every host has a line of its own";
}

TEST(ProbeCommand, FindsTheLinkThatAllHostsShare) {
  std::string output;
  const auto cluster = probed_with_shared_links(
      2, {"probe", "--emulate", "two-clusters:rate=50mbit", "--emulation-mode", "namespaces"}, output);
  EXPECT_NE(output.find("A to B: alone "), std::string::npos) << output;
  EXPECT_NE(output.find("2 pairs at once"), std::string::npos) << output;
  EXPECT_NE(output.find("in all: shared"), std::string::npos) << output;
  for (const auto& link : cluster.shared_links) {
    EXPECT_EQ(link.from.size(), 2U) << link.name;
    EXPECT_EQ(link.to.size(), 2U) << link.name;
    EXPECT_NE(link.from[0].host[0], link.to[0].host[0]) << link.name;
  }
}

// A and C reach each other through B's switch, so that each has one link to both others.
TEST(ProbeCommand, FindsTheUplinkThatAClusterHasToAllOthers) {
  tests::Folder folder;
  const std::string spec = folder.path() / "spec.json";
  Json hosts = Json::array(), links = Json::array();
  for (const std::string name : {"A", "B", "C"}) {
    const Json nic{{"name", "eth0"}, {"rate", "1gbit"}, {"shaped", false}, {"segment", name}};
    for (const std::string number : {"0", "1"})
      hosts.push_back({{"name", name + number}, {"cluster", name}, {"nics", Json::array({nic})}});
  }
  for (const char* name : {"A", "C"})
    links.push_back({{"between", Json::array({name, "B"})}, {"rate", "50mbit"}});
  std::ofstream(spec) << Json{{"name", "a line"}, {"hosts", hosts}, {"links", links}}.dump(1);
  std::string output;
  const auto cluster =
      probed_with_shared_links(4, {"probe", "--emulate", spec, "--emulation-mode", "namespaces"}, output);
  std::set<std::string> names;
  for (const auto& link : cluster.shared_links) names.insert(link.name);
  EXPECT_EQ(names, (std::set<std::string>{"A to B+C", "B+C to A", "C to A+B", "A+B to C"})) << output;
  EXPECT_NE(output.find("B to A+C: alone "), std::string::npos) << output;
  EXPECT_NE(output.find("in all: not shared"), std::string::npos) << output;
}

TEST(ProbeCommand, FindsThePortThatTwoNicsAreBehind) {
  tests::Folder folder;
  const std::string spec = folder.path() / "spec.json";
  Json hosts = Json::array();
  for (const char* name : {"a0", "a1", "a2"}) {
    Json nics = Json::array();
    nics.push_back({{"name", "eth0"}, {"rate", "50mbit"}});
    nics.push_back({{"name", "vip0"}, {"fabric", "storage"}, {"behind", "eth0"}});
    hosts.push_back({{"name", name}, {"cluster", "A"}, {"nics", nics}});
  }
  std::ofstream(spec) << Json{{"name", "one port"}, {"hosts", hosts}}.dump(1);
  std::string output;
  probed_with_shared_links(2U * 3, {"probe", "--emulate", spec, "--emulation-mode", "namespaces"}, output);
  EXPECT_NE(output.find("a1 eth0+vip0 out: "), std::string::npos) << output;
  EXPECT_NE(output.find("a1 eth0+vip0 in: "), std::string::npos) << output;
}

TEST(ProbeCommand, FindsNoSharedPortWhereEachNicHasALineOfItsOwn) {
  auto done = tombolo_command({"probe", "--emulate", "two-paths:rates=50mbit/25mbit", "--emulation-mode",
                               "namespaces", "--seconds", "0.2", "--no-compute", "--json"});
  ASSERT_EQ(done.exit_code, 0) << done.output << done.error;
  const Json probed = Json::parse(done.output);
  EXPECT_EQ(probed.at("links").size(), 4U);
  EXPECT_FALSE(probed.contains("shared_links")) << done.output;
}

// Without a cluster file the islands become the clusters.
TEST(ProbeCommand, NamesTheClustersWhereNoneAreDeclared) {
  std::string output;
  const auto cluster =
      probed({"run", "--emulate", "two-clusters:rate=50mbit", "--emulation-mode", "namespaces", "--quiet",
              "--env", "TOMBOLO_CLUSTER=", "--", TOMBOLO_PROGRAM, "probe"},
             output);
  ASSERT_EQ(cluster.hosts.size(), 4U);
  for (const auto& host : cluster.hosts)
    EXPECT_EQ(host.cluster, host.name[0] == 'a' ? "A" : "B") << host.name << '\n' << output;
}

TEST(ProbeCommand, PrintsJsonAndNothingElseWhenAsked) {
  auto done = tombolo_command({"probe", "--emulate", "two-clusters:hosts=2", "--json", "--seconds", "0.05"});
  ASSERT_EQ(done.exit_code, 0) << done.error;
  auto cluster = Json::parse(done.output);
  EXPECT_EQ(cluster.at("links").size(), 2U);
  EXPECT_EQ(cluster.at("compute").size(), 2U);
  for (const Json& rank : cluster["compute"]) EXPECT_GT(rank.at("alone_flops_per_second").get<double>(), 0);
  ASSERT_EQ(cluster.at("islands").size(), 1U);
  EXPECT_EQ(cluster["islands"][0].at("hosts"), (Json{"a0", "b0"}));
  EXPECT_TRUE(cluster.at("differences").empty());
  EXPECT_TRUE(cluster.at("loads").empty()) << "one pair shares with nobody";
}

TEST(DoctorCommand, ReportsTheWayToEveryPeerAndWhy) {
  auto done =
      tombolo_command({"run", "--emulate", "holmes", "--quiet", "--", TOMBOLO_PROGRAM, "doctor", "--json"});
  auto report = Json::parse(done.output);
  ASSERT_EQ(report.at("ranks").size(), 4U) << done.error;
  for (const auto& rank : report["ranks"]) ASSERT_EQ(rank.at("routes").size(), 3U);
  std::string to_neighbour = report["ranks"][0]["routes"][0]["seen"];
  std::string to_other_cluster = report["ranks"][0]["routes"][1]["seen"];
  EXPECT_NE(to_neighbour.find("fast0 to a1 fast0 (emulated)"), std::string::npos) << to_neighbour;
  EXPECT_NE(to_other_cluster.find("eth0 to b0 eth0"), std::string::npos) << to_other_cluster;
}

// Rank 0's best NIC reaches its own cluster only, so that the id must name another NIC.
TEST(UniqueId, IsReachedFromTheOtherCluster) {
  tests::Folder folder;
  const std::string program = TOMBOLO_C_RANKS, path = folder.path() / "id";
  auto done = tombolo_command({"run", "--emulate", "holmes", "--emulation-mode", "namespaces", "--env",
                               "TOMBOLO_DEADLINE=20", "--", "sh", "-c",
                               fmt::format("exec '{}' id $RANK $WORLD_SIZE '{}'", program, path)});
  EXPECT_EQ(done.exit_code, 0) << done.output << done.error;
}

// The Holmes setting, with a cluster file that wrongly declares both clusters' fast networks as one fabric.
std::string claim_one_fast_fabric(const tests::Folder& folder) {
  auto done = tombolo_command({"run", "-n", "1", "--quiet", "--emulate", "holmes", "--emulation-mode",
                               "namespaces", "--", "sh", "-c", "cat $TOMBOLO_CLUSTER"});
  EXPECT_EQ(done.exit_code, 0) << done.error;
  Json cluster = Json::parse(done.output);
  for (Json& host : cluster["hosts"]) {
    for (Json& nic : host["nics"]) {
      if (nic["name"] != "fast0") continue;
      nic["kind"] = "infiniband";
      nic["fabric"] = "A-ib";
    }
  }
  const std::string path = folder.path() / "claimed.json";
  std::ofstream(path) << cluster.dump(1);
  return path;
}

TEST(DoctorCommand, ListsEveryPairAlsoWhereSomeCannotConnect) {
  tests::Folder folder;
  auto done = tombolo_command({"run", "--emulate", "holmes", "--emulation-mode", "namespaces", "--quiet",
                               "--env", "TOMBOLO_CLUSTER=" + claim_one_fast_fabric(folder), "--env",
                               "TOMBOLO_DEADLINE=6", "--", TOMBOLO_PROGRAM, "doctor", "--json"});
  EXPECT_EQ(done.exit_code, 1) << done.output << done.error;
  auto report = Json::parse(done.output);
  ASSERT_EQ(report.at("ranks").size(), 4U) << done.error;
  for (int rank = 0; rank < 4; ++rank) {
    for (const auto& route : report["ranks"][static_cast<std::size_t>(rank)].at("routes")) {
      const std::string name = route.at("name"), seen = route.at("seen");
      const int peer = name.back() - '0';
      const bool neighbours = rank / 2 == peer / 2;
      EXPECT_EQ(route.at("status"), neighbours ? "ok" : "failed") << name << ": " << seen;
      if (neighbours) {
        EXPECT_NE(seen.find("fast0"), std::string::npos) << seen;
      } else {
        EXPECT_NE(seen.find(fmt::format("no connection to {}{}", peer < 2 ? "a" : "b", peer % 2)),
                  std::string::npos)
            << seen;
        EXPECT_NE(route.at("advice").get<std::string>().find("different fabrics"), std::string::npos);
      }
    }
  }
}

TEST(ProbeCommand, LeavesOutWhatDoesNotConnectAndTellsTheFabricsApart) {
  tests::Folder folder;
  const std::string path = folder.path() / "cluster.json";
  auto done = tombolo_command({"probe", "--emulate", "holmes", "--emulation-mode", "namespaces", "--env",
                               "TOMBOLO_CLUSTER=" + claim_one_fast_fabric(folder), "--env",
                               "TOMBOLO_DEADLINE=8", "--seconds", "0.1", "--no-compute", "--out", path});
  ASSERT_EQ(done.exit_code, 0) << done.output << done.error;
  EXPECT_NE(done.error.find("nothing passes between these parts of fabric 'A-ib'"), std::string::npos)
      << done.error;
  auto cluster = topology::ClusterFile::load(path);
  EXPECT_EQ(cluster.links.size(), 2U * (6 + 2));
  for (const auto& link : cluster.links) {
    EXPECT_TRUE(link.from_nic == "eth0" || link.from_host[0] == link.to_host[0])
        << link.from_host << link.to_host;
  }
  for (const auto& host : cluster.hosts) EXPECT_EQ(host.nics.at(0).fabric, "A-ib-" + host.cluster);
  EXPECT_EQ(cluster.unreachable, (std::vector<std::pair<std::string, std::string>>{{"A-ib-A", "A-ib-B"}}));
}

class AllReduceAcrossClusters : public ::testing::TestWithParam<const char*> {};

TEST_P(AllReduceAcrossClusters, CrossesTheSlowLinkOnceInEveryOrderOfRanks) {
  constexpr double kBytes = 4 << 20,
                   kTimes = 6;  // out of place and in place, each begun once, timed once and checked once
  tests::Folder folder;
  const auto done = tombolo_command({"perf", "all_reduce", "--emulate", "two-clusters", "--emulation-mode",
                                     "namespaces", "--order", GetParam(), "--env",
                                     "TOMBOLO_METRICS_FILE=" + (folder.path() / "%h").string(), "--", "-b",
                                     "4M", "-e", "4M", "-n", "1", "-w", "0"});
  ASSERT_EQ(done.exit_code, 0) << done.output << done.error;
  EXPECT_NE(done.output.find("Out of bounds values : 0 OK"), std::string::npos) << done.output;
  std::map<char, double> sent;  // bytes that each cluster sent to the other
  for (const char* host : {"a0", "a1", "b0", "b1"}) {
    const Json meters = Json::parse(std::ifstream(folder.path() / host));
    for (const auto& total : meters.at("totals"))
      if (total.at("peer").get<std::string>().at(0) != host[0])
        sent[host[0]] += total.at("sent_bytes").get<double>();
  }
  for (const char cluster : {'a', 'b'}) EXPECT_NEAR(sent[cluster] / (kTimes * kBytes), 1, 0.01) << cluster;
}

INSTANTIATE_TEST_SUITE_P(Orders, AllReduceAcrossClusters, ::testing::Values("block", "interleaved"));

}  // namespace
}  // namespace tombolo

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (std::string refused = tombolo::emulation::why_no_namespaces(); !refused.empty()) {
    fmt::print("skipped: {}\n", refused);
    return 77;
  }
  // Without the benchmarks there is nothing to run.
  if (!TOMBOLO_HAVE_BENCH) ::testing::GTEST_FLAG(filter) = "-*AllReduceAcrossClusters*";
  return RUN_ALL_TESTS();
}
