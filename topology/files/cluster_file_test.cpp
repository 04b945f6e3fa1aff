#include "topology/files/cluster_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "base/randomized_test.h"
#include "topology/files/link_table.h"

namespace tombolo::topology {
namespace {

/// The example in the documentation: what a reader would copy.
std::string example() {
  std::ifstream file(std::string(TOMBOLO_SOURCE_DIR) + "/docs/cluster-file.md");
  std::ostringstream all;
  all << file.rdbuf();
  std::string text = all.str();
  constexpr std::string_view kOpen = "```json\n";
  auto begin = text.find(kOpen);
  auto end = text.find("\n```", begin);
  if (begin == std::string::npos || end == std::string::npos) return {};
  return text.substr(begin + kOpen.size(), end - begin - kOpen.size());
}

ClusterFile parse(const std::string& text) {
  return ClusterFile::parse(JsonDocument::parse(text, "c.json"));
}

ClusterFile parse(const Json& json) {
  return parse(json.dump(1));
}

std::string error_of(const Json& json) {
  try {
    parse(json);
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
    return error.what();
  }
  ADD_FAILURE() << "accepted: " << json.dump();
  return {};
}

void expect_error(const Json& json, std::string_view part) {
  std::string text = error_of(json);
  EXPECT_NE(text.find(part), std::string::npos) << "wanted: " << part << "\n   got: " << text;
}

TEST(ClusterFile, ReadsTheDocumentedExample) {
  ClusterFile file = parse(example());
  ASSERT_EQ(file.hosts.size(), 2U);
  EXPECT_EQ(file.clusters(), (std::vector<std::string>{"A", "B"}));
  const Nic& ib = file.hosts[0].nics.at(0);
  EXPECT_EQ(ib.name, "ib0");
  EXPECT_EQ(ib.kind, NicKind::kInfiniBand);
  EXPECT_EQ(ib.rate_bits_per_second, 200'000'000'000U);
  EXPECT_EQ(ib.mtu, 4092);
  EXPECT_EQ(ib.numa_node, 0);
  EXPECT_EQ(ib.gids.size(), 1U);
  EXPECT_TRUE(ib.usable);
  EXPECT_EQ(file.hosts[0].nics.at(1).addresses, std::vector<std::string>{"192.168.7.10"});
  EXPECT_EQ(file.hosts[1].nics.at(0).rdma_port, 1);
  EXPECT_EQ(file.hosts[0].devices.at(0).kind, DeviceKind::kGpu);
  EXPECT_EQ(file.hosts[0].device_bytes_per_second, 4.5e11);
  ASSERT_EQ(file.hosts[1].devices.size(), 4U);
  EXPECT_EQ(file.hosts[1].devices[0], file.hosts[1].devices[3]);
  const LinkTable links(file);
  const auto link = links.find("a0", "eno1", "b0", "eno1");
  ASSERT_TRUE(link);
  EXPECT_DOUBLE_EQ(link->bytes_per_second, 1.17e9);
  EXPECT_TRUE(link->measured);
  EXPECT_FALSE(links.find("a0", "eno1", "b0", "ens3f0"));
  ASSERT_EQ(file.fabrics.size(), 2U);
  EXPECT_EQ(file.fabrics[0].fabric, "ib-A");
  EXPECT_EQ(file.fabrics[1].to_cluster, "B");
  EXPECT_NE(file.find_host("b0"), nullptr);
  EXPECT_EQ(file.find_host("b1"), nullptr);
  EXPECT_EQ(file.require, "rdma");
  EXPECT_EQ(file.unreachable.size(), 1U);
}

TEST(ClusterFile, ComesBackUnchangedThroughJson) {
  Json json = Json::parse(example());
  json["emulated"] = true;
  json["shared_processor"] = {{"hosts", {"a0", "b0"}}, {"cores", 2}};
  json["hosts"][1]["nics"][1]["rate_gbps"] = 0.1;
  json["hosts"][1]["nics"][1]["burst_bytes"] = 65536.0;
  json["fabrics"][1]["bytes_per_second"] = 1.2e7;
  json["hosts"][1]["nics"][1]["role"] = "vlan";
  json["hosts"][1]["nics"][1]["state"] = "unknown";
  ClusterFile first = parse(json);
  EXPECT_EQ(first.hosts[1].nics[1].rate_bits_per_second, 100'000'000U);
  ClusterFile second = parse(first.to_json());
  EXPECT_EQ(first.to_json(), second.to_json());
  for (const char* field : {"emulated", "note", "links", "fabrics", "shared_links", "shared_processor",
                            "unreachable", "require"}) {
    EXPECT_EQ(first.to_json()[field], json[field]) << field;
  }
  EXPECT_EQ(first.to_json()["hosts"][0]["nics"][0], json["hosts"][0]["nics"][0]);
  EXPECT_EQ(first.to_json()["hosts"][1]["nics"][1]["burst_bytes"], 65536.0);
  for (int host : {0, 1}) {
    EXPECT_EQ(first.to_json()["hosts"][host]["devices"], json["hosts"][host]["devices"]);
  }
  EXPECT_EQ(first.to_json()["hosts"][0]["device_bytes_per_second"], 4.5e11);
}

TEST(ClusterFile, PutsTheBestKindFirst) {
  Json json = Json::parse(example());
  std::swap(json["hosts"][0]["nics"][0], json["hosts"][0]["nics"][1]);
  EXPECT_EQ(parse(json).hosts[0].nics.at(0).name, "ib0");
}

TEST(ClusterFile, NamesLineAndFieldOfEachMistake) {
  const Json good = Json::parse(example());
  auto with = [&](const char* pointer, const Json& value) {
    Json json = good;
    json[Json::json_pointer(pointer)] = value;
    return json;
  };
  expect_error(with("/hosts/0/nics/0/rate_gbps", "fast"),
               "hosts[0].nics[0].rate_gbps: expected a number > 0, found \"fast\"");
  expect_error(with("/hosts/0/nics/0/rate_gbps", 0), "expected a number > 0");
  expect_error(with("/hosts/0/nics/0/rate_gbps", 1e300), "at most");
  expect_error(with("/hosts/0/nics/0/mtu", 10), "hosts[0].nics[0].mtu: expected an integer from 68");
  expect_error(with("/hosts/0/nics/0/kind", "ethernet"), "one of \"infiniband\"");
  expect_error(with("/hosts/0/nics/0/numa_node", -1), "numa_node: expected an integer from 0");
  expect_error(with("/hosts/0/nics/0/rate", 4), "hosts[0].nics[0].rate: unknown field");
  expect_error(with("/hosts/0/nics/0/adresses", 4), "did you mean \"addresses\"?");
  expect_error(with("/hosts/0/nics/0/addresses", {"10.0.0.1/24"}), "addresses[0]: expected an IPv4 or IPv6");
  expect_error(with("/hosts/0/nics/1/addresses", {"10.0.0.1"}), "either \"address\" or \"addresses\"");
  expect_error(with("/hosts/0/nics/1/name", "ib0"), "host \"a0\" already has a NIC \"ib0\"");
  expect_error(with("/hosts/1/name", "a0"), "hosts[1].name: there is already a host \"a0\"");
  expect_error(with("/hosts/1/name", "a/0"), "without '/'");
  expect_error(with("/hosts/1/name", ""), "expected a name");
  expect_error(with("/hosts", Json::array()), "hosts: expected at least one host");
  expect_error(with("/hosts/0/devices/0/memory_bytes", -5), "memory_bytes: expected a number > 0");
  expect_error(with("/links/0/from", "a0/eno2"),
               "links[0].from: host \"a0\" has no NIC \"eno2\"; did you mean");
  expect_error(with("/links/0/to", "c9/eno1"), "links[0].to: there is no host \"c9\"");
  expect_error(with("/links/0/to", "b0"), "expected \"host/nic\"");
  expect_error(with("/links/0/bytes_per_second", 0), "bytes_per_second: expected a number > 0");
  expect_error(with("/links/0/latency_seconds", -1), "latency_seconds: expected a number >= 0");
  expect_error(with("/links/1", good["links"][0]), "is given twice");
  expect_error(with("/unreachable/0/0", "ib-X"), "no NIC is on a fabric \"ib-X\"; did you mean \"ib-A\"?");
  expect_error(with("/unreachable/0/0", "roce-B"), "two different fabrics");
  expect_error(with("/require", "luck"), "require: expected one of \"rdma\"");
  expect_error(with("/shared_processor", {{"hosts", {"a9"}}, {"cores", 2}}), "no host \"a9\"");
  expect_error(with("/shared_processor", {{"hosts", {"a0"}}, {"cores", 0}}), "cores: expected a number > 0");
  expect_error(with("/tombolo_cluster", 2), "reads version 1 of the cluster file, found version 2");
  expect_error(with("/hosts/1/devices/0/count", 0), "count: expected an integer from 1 to 1024");
  expect_error(with("/hosts/0/devices/0/count", 8), "8 devices cannot be at one \"pci_path\"");
  expect_error(with("/hosts/0/device_bytes_per_second", -1),
               "device_bytes_per_second: expected a number > 0");
  expect_error(with("/fabrics/0/name", "ib-X"),
               "fabrics[0].name: no NIC is on a fabric \"ib-X\"; did you mean");
  expect_error(with("/fabrics/0/bytes_per_second", 2e11),
               "fabrics[0].bytes_per_second: 200000000000 bytes per second are more than the fastest NIC");
  expect_error(with("/fabrics/0/bytes_per_second", 1e300), "expected at most");
  expect_error(with("/fabrics/0/bytes_per_second", -1), "bytes_per_second: expected a number > 0");
  expect_error(with("/fabrics/0/latency_seconds", 1e9), "latency_seconds: expected at most 3600 seconds");
  expect_error(with("/fabrics/0/rate", 1), "fabrics[0].rate: unknown field");
  expect_error(with("/fabrics/0/to_cluster", "B"), "fabrics[0].to_cluster: give both");
  expect_error(with("/fabrics/1/to_cluster", "C"), "fabrics[1].to_cluster: there is no cluster \"C\"");
  expect_error(with("/fabrics/1/name", "ib-A"), "no NIC of cluster \"B\" is on fabric \"ib-A\"");
  expect_error(with("/fabrics/2", good["fabrics"][1]), "from cluster \"A\" to \"B\" is given twice");
  expect_error(with("/fabrics/2", good["fabrics"][0]), "fabric \"ib-A\" is given twice");
  expect_error(with("/hosts/0/nics/1/burst_bytes", 0), "nics[1].burst_bytes: expected a number > 0");
  expect_error(with("/shared_links/0/from/0", "a0/eno9"), "shared_links[0].from[0]: host \"a0\" has no NIC");
  expect_error(with("/shared_links/0/from/1", "a0/eno1"), "from[1]: \"a0/eno1\" is listed twice");
  expect_error(with("/shared_links/0/to", Json::array()), "shared_links[0].to: expected at least one");
  expect_error(with("/shared_links/0/bytes_per_second", 0), "bytes_per_second: expected a number > 0");
  expect_error(with("/shared_links/1", good["shared_links"][0]), "there is already a shared link \"A to B\"");
  Json no_ethernet = good;
  no_ethernet.erase("shared_links");
  no_ethernet["links"] = Json::array();
  for (int host : {0, 1}) no_ethernet["hosts"][host]["nics"].erase(1);
  expect_error(no_ethernet, "fabrics[1]: without \"name\"");
  Json no_device = good;
  no_device["hosts"][0]["nics"][0].erase("rdma_device");
  expect_error(no_device, "needs \"rdma_device\"");
  no_device["hosts"][0]["nics"][0]["emulated"] = true;
  EXPECT_NO_THROW(parse(no_device));
  expect_error(Json::object(), "c.json:1: the field \"tombolo_cluster\" is missing");
  expect_error(
      {{"tombolo_fleet", 1}, {"clusters", Json::array()}},
      "tombolo_fleet: this is a fleet file, and a cluster file is needed; make one of it with `tombolo "
      "topo --fleet FILE --cluster-out FILE`");
}

TEST(ClusterFile, GivesTheLineWhereTheMistakeStands) {
  std::string text = example();
  auto at = text.find("\"rate_gbps\": 100");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 16, "\"rate_gbps\": -1");
  long line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
  try {
    parse(text);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find(fmt::format("c.json:{}: hosts[1].nics[0].rate_gbps: ", line)),
              0U)
        << error.what();
  }
}

// Whatever the bytes, the answer is a cluster or an Error: no crash, no other exception.
TEST(ClusterFile, AnswersEveryMutationWithAnErrorOrACluster) {
  std::mt19937 random(test_seed());
  const std::string good = example();
  const std::vector<std::string> pieces{
      "null", "-1",      "1e999", "\"\"",    "{}",   "[]",      "true", "99999999999999999999",
      ",",    "\"a0/\"", "/",     "\\u0000", "\xff", "\"ib0\"", "0.5",  "\"\\ud800\""};
  auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  int accepted = 0;
  for (int round = 0; round < test_rounds(4000); ++round) {
    std::string text = good;
    for (std::size_t edits = 1 + below(3); edits > 0 && !text.empty(); --edits) {
      std::size_t at = below(text.size());
      switch (below(5)) {
        case 0:
          text[at] = static_cast<char>(below(256));
          break;
        case 1:
          text.erase(at, 1 + below(12));
          break;
        case 2:
          text.insert(at, pieces[below(pieces.size())]);
          break;
        case 3: {  // a whole token by another
          auto begin = text.find_first_of(":[", at);
          auto end = begin == std::string::npos ? begin : text.find_first_of(",]}", begin);
          if (end != std::string::npos)
            text.replace(begin + 1, end - begin - 1, pieces[below(pieces.size())]);
          break;
        }
        default:
          text.resize(at + 1);
      }
    }
    try {
      ClusterFile file = parse(text);
      ++accepted;
      EXPECT_EQ(parse(file.to_json()).to_json(), file.to_json()) << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kInvalidUsage) << text;
    }
  }
  EXPECT_GT(accepted, 0) << "mutations so coarse that nothing behind the JSON parser is reached";
}

TEST(ClusterFile, IsTakenFromTheEnvironmentWhereItSaysSo) {
  ::unsetenv("TOMBOLO_CLUSTER");
  EXPECT_FALSE(cluster_file_from_environment().has_value());
  std::string folder = (std::filesystem::temp_directory_path() / "tombolo-cluster-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  std::string path = folder + "/c.json";
  parse(example()).save(path);
  ::setenv("TOMBOLO_CLUSTER", path.c_str(), 1);
  auto file = cluster_file_from_environment();
  ::unsetenv("TOMBOLO_CLUSTER");
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(file->hosts.size(), 2U);
}

}  // namespace
}  // namespace tombolo::topology
