#include "topology/files/fleet.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/sanitizer.h"
#include "topology/files/link_table.h"

namespace tombolo::topology {
namespace {

/// The example in the documentation: what a reader would copy.
std::string documented_fleet() {
  std::ifstream file(std::string(TOMBOLO_SOURCE_DIR) + "/docs/fleet-file.md");
  std::ostringstream all;
  all << file.rdbuf();
  const std::string text = all.str();
  constexpr std::string_view kOpen = "```json\n";
  const auto begin = text.find(kOpen), end = text.find("\n```", begin);
  if (begin == std::string::npos || end == std::string::npos) return {};
  return text.substr(begin + kOpen.size(), end - begin - kOpen.size());
}

ClusterFile expand(const std::string& text) {
  static const Library library = Library::load();
  return expand_fleet(JsonDocument::parse(text, "f.json"), library);
}

TEST(Fleet, ExpandsTheDocumentedExample) {
  const ClusterFile file = expand(documented_fleet());
  EXPECT_EQ(file.clusters(), (std::vector<std::string>{"A", "B"}));
  ASSERT_EQ(file.hosts.size(), 8U);
  const Host& a = file.hosts[0];
  EXPECT_EQ(a.name, "A0");
  ASSERT_EQ(a.devices.size(), 8U);
  EXPECT_EQ(a.devices[0].name, "A100-SXM4-80GB");
  EXPECT_DOUBLE_EQ(a.devices[7].flops_per_second, 312e12 * 0.8);
  EXPECT_DOUBLE_EQ(a.device_bytes_per_second, 300e9 * 0.8);
  ASSERT_EQ(a.nics.size(), 3U);
  EXPECT_EQ(a.nics[1].name, "ib1");
  EXPECT_EQ(a.nics[1].rdma_device, "mlx5_1");
  EXPECT_EQ(a.nics[1].fabric, "ib-A");
  EXPECT_EQ(a.nics[2].name, "eth0");
  EXPECT_EQ(a.nics[2].fabric, "");
  EXPECT_EQ(file.hosts[7].nics[0].kind, NicKind::kRoce);
  const LinkTable links(file);
  EXPECT_DOUBLE_EQ(links.find("A0", "ib0", "A3", "ib1")->bytes_per_second, 25e9 * 0.92);
  EXPECT_DOUBLE_EQ(links.find("B0", "roce0", "B1", "roce0")->bytes_per_second, 2.1e10);
  EXPECT_FALSE(links.find("A0", "ib0", "B0", "roce0"));
  for (const auto& [from, to] : {std::pair{"A0", "B2"}, {"B2", "A0"}}) {
    const auto between = links.find(from, "eth0", to, "eth0");
    ASSERT_TRUE(between);
    EXPECT_DOUBLE_EQ(between->bytes_per_second, 1.25e9 * 0.85) << "of 10 Gbit/s, although the NICs have 25";
    EXPECT_EQ(between->latency_seconds, 0.0005);
  }
  EXPECT_DOUBLE_EQ(links.find("A0", "eth0", "A1", "eth0")->bytes_per_second, 25e9 / 8 * 0.85);
  // What was expanded is a valid cluster file.
  const ClusterFile again = ClusterFile::parse(JsonDocument::parse(file.to_json().dump(1), "c.json"));
  EXPECT_EQ(again.to_json(), file.to_json());
}

TEST(Fleet, TakesWhatIsSaidBeforeWhatIsUsual) {
  const ClusterFile file = expand(R"({"tombolo_fleet": 1, "clusters": [
    {"name": "A", "hosts": ["x", "y"], "device_bytes_per_second": 1e10,
     "devices": [{"name": "L40S", "dtype": "fp8"}, {"name": "V100", "count": 2, "flops_per_second": 5e13},
                 {"name": "EPYC 7763", "memory_bytes": 5e11, "memory_bytes_per_second": 1e11}],
     "nics": [{"name": "ConnectX-6 HDR", "kind": "roce", "rate_gbps": 100, "rdma_device": "rocep", "count": 2},
              {"name": "Ethernet 100G"}],
     "fabric": {"kind": "tcp", "rate_gbps": 40, "latency_seconds": 0.001}}]})");
  EXPECT_EQ(file.hosts[1].name, "y");
  const auto& devices = file.hosts[0].devices;
  ASSERT_EQ(devices.size(), 4U);
  EXPECT_DOUBLE_EQ(devices[0].flops_per_second, 733e12 * 0.6);
  EXPECT_EQ(devices[2].flops_per_second, 5e13);
  EXPECT_EQ(devices[3].memory_bytes, 5e11);
  EXPECT_EQ(devices[3].memory_bytes_per_second, 1e11);
  EXPECT_EQ(file.hosts[0].device_bytes_per_second, 1e10);
  EXPECT_EQ(file.hosts[0].nics[1].rdma_device, "rocep1");
  EXPECT_EQ(file.hosts[0].nics[1].rate_bits_per_second, 100'000'000'000U);
  const LinkTable links(file);
  EXPECT_DOUBLE_EQ(links.find("x", "eth0", "y", "eth0")->bytes_per_second, 5e9 * 0.85);
  EXPECT_EQ(links.find("x", "eth0", "y", "eth0")->latency_seconds, 0.001);
}

TEST(Fleet, JoinsRdmaFabricsWhereItIsSaid) {
  const std::string cluster = R"("hosts": 2, "devices": {"name": "H100"}, "nics": [{"name": "ConnectX-7"}])";
  const ClusterFile file = expand(R"({"tombolo_fleet": 1, "clusters": [{"name": "A", )" + cluster +
                                  R"(}, {"name": "B", )" + cluster + R"(}, {"name": "C", )" + cluster +
                                  R"(}], "between": [
    {"from": "C", "to": "B", "kind": "infiniband", "bytes_per_second": 1e10},
    {"from": "B", "to": "C", "kind": "infiniband", "bytes_per_second": 2e10},
    {"from": "A", "to": "B", "kind": "infiniband", "rate_gbps": 100, "latency_seconds": 0.001}]})");
  for (const Host& host : file.hosts) EXPECT_EQ(host.nics[0].fabric, "ib-A");
  const LinkTable links(file);
  EXPECT_EQ(links.find("C0", "ib0", "B0", "ib0")->bytes_per_second, 1e10);
  EXPECT_EQ(links.find("B0", "ib0", "C1", "ib0")->bytes_per_second, 2e10);
  EXPECT_DOUBLE_EQ(links.find("B0", "ib0", "A1", "ib0")->bytes_per_second, 12.5e9 * 0.92);
  EXPECT_FALSE(links.find("A0", "ib0", "C0", "ib0")) << "nobody said what they attain";
}

TEST(Fleet, ClustersShareWhatJoinsThemWhereATotalIsGiven) {
  const std::string cluster =
      R"("hosts": 2, "devices": {"name": "H100"}, "nics": {"name": "Ethernet 100G", "count": 2})";
  const auto joined_by = [&](const std::string& between) {
    return expand(R"({"tombolo_fleet": 1, "clusters": [{"name": "A", )" + cluster + R"(}, {"name": "B", )" +
                  cluster + R"(}], "between": [{"from": "A", "to": "B", )" + between + "}]}");
  };
  const ClusterFile wan = joined_by(R"("total_gbps": 80, "rate_gbps": 25, "latency_seconds": 0.01)");
  ASSERT_EQ(wan.shared_links.size(), 2U) << "one in each direction";
  for (const SharedLink& link : wan.shared_links) {
    EXPECT_DOUBLE_EQ(link.bytes_per_second, 1e10 * 0.85);
    EXPECT_EQ(link.from.size(), 4U);
    EXPECT_EQ(link.to.size(), 4U);
  }
  EXPECT_EQ(wan.shared_links[0].name, "A to B by tcp");
  EXPECT_TRUE(wan.shared_links[0].carries("A1", "eth1", "B0", "eth0"));
  EXPECT_FALSE(wan.shared_links[0].carries("B0", "eth0", "A1", "eth1"));
  EXPECT_TRUE(wan.shared_links[1].carries("B0", "eth0", "A1", "eth1"));
  const LinkTable links(wan);
  EXPECT_DOUBLE_EQ(links.find("A0", "eth0", "B1", "eth1")->bytes_per_second, 25e9 / 8 * 0.85);
  EXPECT_DOUBLE_EQ(links.find("A0", "eth0", "A1", "eth0")->bytes_per_second, 100e9 / 8 * 0.85)
      << "inside, as ever";
  EXPECT_EQ(ClusterFile::parse(JsonDocument::parse(wan.to_json().dump(1), "c.json")).shared_links.size(), 2U);

  // Without a rate of its own a pair attains what its NICs do, and no more than the total.
  const ClusterFile slow = joined_by(R"("total_bytes_per_second": 1e9)"),
                    fast = joined_by(R"("total_gbps": 800)");
  EXPECT_EQ(LinkTable(slow).find("A0", "eth0", "B0", "eth0")->bytes_per_second, 1e9);
  EXPECT_DOUBLE_EQ(LinkTable(fast).find("A0", "eth0", "B0", "eth0")->bytes_per_second, 100e9 / 8 * 0.85);
}

TEST(Fleet, NamesLineAndFieldOfEachMistake) {
  const Json good = Json::parse(documented_fleet());
  const auto wrong = [&](const char* pointer, const Json& value, std::string_view part) {
    Json json = good;
    json[Json::json_pointer(pointer)] = value;
    try {
      expand(json.dump(1));
      ADD_FAILURE() << "accepted: " << pointer << " " << value;
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
      const std::string text = error.what();
      EXPECT_EQ(text.find("f.json:"), 0U) << text;
      EXPECT_NE(text.find(part), std::string::npos) << "wanted: " << part << "\n   got: " << text;
    }
  };
  wrong("/tombolo_fleet", 9, "reads version 1 of the fleet file, found version 9");
  wrong("/cluster", 1, "cluster: unknown field; did you mean \"clusters\"?");
  wrong("/clusters", Json::array(), "clusters: expected at least one cluster");
  wrong("/clusters/1/name", "A", "clusters[1].name: there is already a cluster \"A\"");
  wrong("/clusters/0/hosts", 0, "clusters[0].hosts: expected an integer from 1");
  wrong("/clusters/0/hosts", Json::array(), "expected at least one host");
  wrong("/clusters/0/hosts", {"B1"}, "clusters[1].hosts: there is already a host \"B1\"");
  wrong("/clusters/0/hosts", 60000, "at most 131072 and 262144 are expanded");
  wrong("/clusters/0/devices/name", "A1000-80G",
        "clusters[0].devices.name: the library has no device "
        "\"A1000-80G\"; did you mean \"A100-80G\"?");
  wrong("/clusters/0/devices/count", -8, "devices.count: expected an integer from 1 to 1024");
  wrong("/clusters/0/devices/dtype", "fp8",
        "the library knows no fp8 peak of A100-SXM4-80GB; it would take \"bf16\"");
  wrong("/clusters/0/devices/dtype", "int8", "devices.dtype: expected one of \"fp32\"");
  wrong("/clusters/0/devices/flops_per_second", 1e30, "flops_per_second: expected at most");
  wrong("/clusters/0/devices", Json::array(), "devices: expected at least one device");
  wrong("/clusters/0/nics/0/name", "ConectX-6",
        "the library has no NIC \"ConectX-6\"; did you mean \"ConnectX-6\"?");
  wrong("/clusters/0/nics/0/kind", "iwarp", "ConnectX-6 HDR is infiniband or roce or tcp, not iwarp");
  wrong("/clusters/0/nics/0/rate_gbps", "fast", "rate_gbps: expected a number > 0, found \"fast\"");
  wrong("/clusters/0/nics", Json::array(), "nics: expected at least one NIC");
  wrong("/clusters/0/fabric", {{"kind", "iwarp"}}, "no NIC of cluster \"A\" is of kind iwarp");
  wrong("/clusters/0/fabric", {{"kind", "infiniband"}, {"bytes_per_second", 2e11}},
        "fabric.bytes_per_second: 200000000000 bytes per second are more than the infiniband NICs there can "
        "carry");
  wrong("/clusters/0/fabric", {{"kind", "infiniband"}, {"bytes_per_second", 2e9}, {"rate_gbps", 1}},
        "not both");
  wrong("/between/0/to", "C", "between[0].to: there is no cluster \"C\"");
  wrong("/between/0/to", "A", "between[0].to: expected two different clusters");
  wrong("/between/0/rate_gbps", nullptr, "the field \"rate_gbps\" is missing");
  wrong("/between/0/total_gbps", 5,
        "one pair of NICs attains 1062500000 bytes per second, but all pairs together only 531250000");
  wrong("/between/0/total_gbps", 0, "total_gbps: expected a number > 0");
  wrong("/between/0", {{"from", "A"}, {"to", "B"}, {"total_gbps", 5}, {"total_bytes_per_second", 1e9}},
        "not both");
  wrong("/between/0/latency_seconds", -1, "latency_seconds: expected a number >= 0");
  wrong("/between/0/kind", "infiniband", "cluster \"B\" has no NIC of kind infiniband");
  wrong("/between/1", good["between"][0], "what joins \"A\" to \"B\" by tcp is given twice");
  wrong("/between", Json::array(), "between: nothing joins cluster \"B\" to cluster \"A\"; add");
  wrong("/between", nullptr, "nothing joins cluster \"B\"");
}

TEST(Fleet, ExpandsAThousandHosts) {
  const ClusterFile file = expand(R"({"tombolo_fleet": 1, "clusters": [{"name": "A", "hosts": 1024,
    "devices": {"name": "H100", "count": 8}, "nics": {"name": "ConnectX-7", "count": 8}}]})");
  const std::string text = file.to_json().dump(1);
  const ClusterFile again = ClusterFile::parse(JsonDocument::parse(text, "c.json"));
  EXPECT_EQ(again.hosts.size(), 1024U);
  EXPECT_EQ(again.hosts[1023].devices.size(), 8U);
}

}  // namespace
}  // namespace tombolo::topology
