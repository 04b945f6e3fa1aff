// The commands over emulated clusters: what the probe finds, and how near the all-reduce comes to its bound.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "base/format.h"
#include "base/json.h"
#include "tests/process/process_watch.h"
#include "tools/emulation/emulation.h"
#include "tools/subprocess.h"
#include "topology/cluster_file.h"

namespace tombolo {
namespace {

tools::Finished tombolo_command(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), TOMBOLO_PROGRAM);
  return tools::run_program(arguments, "", std::chrono::seconds(120));
}

TEST(ProbeCommand, FindsTheSlowAndTheFastNicsOfTheHolmesSetting) {
  tests::Folder folder;
  std::string path = folder.path() / "cluster.json";
  double slow_best = 0;
  double fast_best = 0;
  std::size_t links = 0;
  // The best of a few: a busy machine takes time away, and nothing adds to the rate.
  for (int attempt = 0; attempt < 4 && (slow_best < 90e6 || fast_best < 4 * slow_best); ++attempt) {
    auto done =
        tombolo_command({"probe", "--emulate", "holmes", "--emulation-mode", "namespaces", "--out", path});
    ASSERT_EQ(done.exit_code, 0) << done.output << done.error;
    EXPECT_NE(done.output.find("infiniband (emulated), fabric A-ib"), std::string::npos) << done.output;
    auto cluster = topology::ClusterFile::load(path);
    links = cluster.links.size();
    for (const auto& link : cluster.links) {
      EXPECT_TRUE(link.measured);
      double bits = link.bytes_per_second * 8;
      EXPECT_TRUE(link.from_nic == "eth0" || link.from_host[0] == link.to_host[0])
          << link.from_host << link.to_host;
      if (link.from_nic == "eth0") {
        EXPECT_LT(bits, 115e6) << link.from_host << " to " << link.to_host;
        slow_best = std::max(slow_best, bits);
      } else {
        fast_best = std::max(fast_best, bits);
      }
    }
    for (const auto& host : cluster.hosts) EXPECT_GT(host.devices.at(0).flops_per_second, 1e8) << host.name;
  }
  EXPECT_EQ(links, 2U * (6 + 2));
  EXPECT_TRUE(topology::ClusterFile::load(path).shared_links.empty()) << "every host has a line of its own";
  EXPECT_GT(slow_best, 70e6);
  EXPECT_GT(fast_best, 4 * slow_best);
}

// A busy machine takes time away, so that what is shared can look like something else: of a few runs the
// first that finds `count` shared links, else the last.
topology::ClusterFile probed_with_shared_links(std::size_t count, std::vector<std::string> arguments,
                                               std::string& output, double most = 110e6,
                                               const std::string& seconds = "0.2") {
  tests::Folder folder;
  const std::string path = folder.path() / "cluster.json";
  arguments.insert(arguments.end(), {"--seconds", seconds, "--no-compute", "--out", path});
  topology::ClusterFile cluster;
  for (int attempt = 0; attempt < 4 && cluster.shared_links.size() != count; ++attempt) {
    auto done = tombolo_command(arguments);
    output = done.output;
    EXPECT_EQ(done.exit_code, 0) << done.output << done.error;
    cluster = topology::ClusterFile::load(path);
  }
  for (const auto& link : cluster.shared_links) {
    EXPECT_GT(link.bytes_per_second * 8, 60e6) << link.name << '\n' << output;
    EXPECT_LT(link.bytes_per_second * 8, most) << link.name << '\n' << output;
  }
  return cluster;
}

TEST(ProbeCommand, FindsTheLinkThatAllHostsShare) {
  std::string output;
  const auto cluster = probed_with_shared_links(
      2, {"probe", "--emulate", "two-clusters:rate=100mbit", "--emulation-mode", "namespaces"}, output);
  EXPECT_NE(output.find("A to B: alone "), std::string::npos) << output;
  EXPECT_NE(output.find("2 pairs at once"), std::string::npos) << output;
  EXPECT_NE(output.find("in all: shared"), std::string::npos) << output;
  ASSERT_EQ(cluster.shared_links.size(), 2U) << output;
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
    links.push_back({{"between", Json::array({name, "B"})}, {"rate", "100mbit"}});
  std::ofstream(spec) << Json{{"name", "a line"}, {"hosts", hosts}, {"links", links}}.dump(1);
  std::string output;
  const auto cluster = probed_with_shared_links(
      4, {"probe", "--emulate", spec, "--emulation-mode", "namespaces"}, output, 110e6, "0.1");
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
    nics.push_back({{"name", "eth0"}, {"rate", "100mbit"}});
    nics.push_back({{"name", "vip0"}, {"fabric", "storage"}, {"behind", "eth0"}});
    hosts.push_back({{"name", name}, {"cluster", "A"}, {"nics", nics}});
  }
  std::ofstream(spec) << Json{{"name", "one port"}, {"hosts", hosts}}.dump(1);
  std::string output;
  const auto cluster = probed_with_shared_links(
      2U * 3, {"probe", "--emulate", spec, "--emulation-mode", "namespaces"}, output, 105e6);
  EXPECT_NE(output.find("a1 eth0+vip0 out: "), std::string::npos) << output;
  EXPECT_NE(output.find("a1 eth0+vip0 in: "), std::string::npos) << output;
  EXPECT_EQ(cluster.shared_links.size(), 2U * 3) << output;
}

TEST(ProbeCommand, FindsNoSharedPortWhereEachNicHasALineOfItsOwn) {
  auto done = tombolo_command({"probe", "--emulate", "two-paths:rates=100mbit/50mbit", "--emulation-mode",
                               "namespaces", "--seconds", "0.2", "--no-compute", "--json"});
  ASSERT_EQ(done.exit_code, 0) << done.output << done.error;
  const Json probed = Json::parse(done.output);
  EXPECT_EQ(probed.at("links").size(), 4U);
  EXPECT_FALSE(probed.contains("shared_links")) << done.output;
}

// Without a cluster file hosts know nothing of clusters: the islands become them.
TEST(ProbeCommand, NamesTheClustersWhereNoneAreDeclared) {
  std::string output;
  const auto cluster = probed_with_shared_links(
      2,
      {"run", "--emulate", "two-clusters:rate=100mbit", "--emulation-mode", "namespaces", "--quiet", "--env",
       "TOMBOLO_CLUSTER=", "--", TOMBOLO_PROGRAM, "probe"},
      output);
  ASSERT_EQ(cluster.hosts.size(), 4U);
  for (const auto& host : cluster.hosts)
    EXPECT_EQ(host.cluster, host.name[0] == 'a' ? "A" : "B") << host.name << '\n' << output;
  EXPECT_EQ(cluster.shared_links.size(), 2U) << output;
}

TEST(ProbeCommand, PrintsJsonAndNothingElseWhenAsked) {
  auto done = tombolo_command({"probe", "--emulate", "two-clusters:hosts=2", "--json", "--seconds", "0.05"});
  ASSERT_EQ(done.exit_code, 0) << done.error;
  auto cluster = Json::parse(done.output);
  EXPECT_EQ(cluster.at("links").size(), 2U);
  EXPECT_EQ(cluster.at("compute").size(), 2U);
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

// Rank 0's best NIC leads to its own cluster only: the id must name the other one.
TEST(UniqueId, IsReachedFromTheOtherCluster) {
  tests::Folder folder;
  const std::string program = TOMBOLO_C_RANKS, path = folder.path() / "id";
  auto done = tombolo_command({"run", "--emulate", "holmes", "--emulation-mode", "namespaces", "--env",
                               "TOMBOLO_DEADLINE=20", "--", "sh", "-c",
                               fmt::format("exec '{}' id $RANK $WORLD_SIZE '{}'", program, path)});
  EXPECT_EQ(done.exit_code, 0) << done.output << done.error;
}

// The Holmes setting with a cluster file that takes both clusters' fast networks for one.
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

// Milliseconds of the out-of-place column for the one size that was asked for.
double all_reduce_milliseconds(const std::string& order) {
  auto done = tombolo_command({"perf", "all_reduce", "--emulate", "two-clusters", "--order", order, "--",
                               "-b", "16M", "-e", "16M", "-n", "5", "-w", "2"});
  EXPECT_EQ(done.exit_code, 0) << done.output << done.error;
  std::istringstream lines(done.output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream columns(line);
    std::string count, type, op, root;
    double size = 0;
    double microseconds = 0;
    if (columns >> size >> count >> type >> op >> root >> microseconds && size == 16.0 * 1024 * 1024) {
      return microseconds / 1e3;
    }
  }
  ADD_FAILURE() << "no row for 16 MiB in:\n" << done.output << done.error;
  return 0;
}

class AllReduceAcrossClusters : public ::testing::TestWithParam<const char*> {};

TEST_P(AllReduceAcrossClusters, ComesNearItsBoundInEveryOrderOfRanks) {
  constexpr double kBound = 16.0 * 1024 * 1024 * 8 / 1e9 * 1e3;  // S / rate in ms: the link is full duplex
  double best = 0;
  for (int attempt = 0; attempt < 4 && (best == 0 || best > 1.25 * kBound); ++attempt) {
    double milliseconds = all_reduce_milliseconds(GetParam());
    best = best == 0 ? milliseconds : std::min(best, milliseconds);
  }
  fmt::print("{} order: {:.1f} ms, {:.3f} times the bound of {:.1f} ms\n", GetParam(), best, best / kBound,
             kBound);
  // The bucket gives away 256 KiB, 1.6 % of what crosses.
  EXPECT_GT(best, 0.98 * kBound);
  EXPECT_LE(best, 1.25 * kBound);
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
  // Without the benchmarks there is nothing to hold against the bound.
  if (!TOMBOLO_HAVE_BENCH) ::testing::GTEST_FLAG(filter) = "-*AllReduceAcrossClusters*";
  return RUN_ALL_TESTS();
}
