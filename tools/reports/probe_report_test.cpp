#include "tools/reports/probe_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tombolo::tools {
namespace {

TEST(ProbeReport, SaysWhatWasFoundInWordsAndAsJson) {
  topology::ClusterFile cluster;
  for (const char* name : {"a0", "a1", "b0"}) {
    cluster.hosts.emplace_back().name = name;
    cluster.hosts.back().cluster = std::string(1, name[0] == 'a' ? 'A' : 'B');
  }
  probe::ProbedLinks measured;
  measured.islands = {{{"a0", "a1"}, true, 2.5e9, {topology::NicKind::kInfiniBand}}, {{"b0"}, false, 0, {}}};
  measured.loads = {{"A to B", 4, 1.25e8, 1.25e8, true}, {"B to A", 4, 1.25e8, 5e8, false}};
  measured.shared = {{"A to B", {{"a0", "eth0"}}, {{"b0", "eth0"}}, 1.25e8},
                     {"a0 eth0+eth1 out", {{"a0", "eth0"}}, {{"b0", "eth0"}}, 2.5e8}};
  EXPECT_EQ(describe_structure(cluster, measured, {"host a1 is odd"}),
            "islands, whose hosts reach each other markedly faster than others:\n"
            "  a0 a1 (cluster A): 20 Gbit/s by infiniband\n"
            "  b0 (cluster B), nobody markedly nearer than the rest\n"
            "  but host a1 is odd\n"
            "under load:\n"
            "  A to B: alone 1 Gbit/s, 4 pairs at once 1 Gbit/s in all: shared\n"
            "  B to A: alone 1 Gbit/s, 4 pairs at once 4 Gbit/s in all: not shared\n"
            "  a0 eth0+eth1 out: 2 Gbit/s for all of them at once: one port\n");
  Json json;
  add_structure(json, cluster, measured, {"host a1 is odd"});
  EXPECT_EQ(json["islands"][0]["clusters"], Json::array({"A"}));
  EXPECT_EQ(json["islands"][0]["bytes_per_second"], 2.5e9);
  EXPECT_FALSE(json["islands"][1].contains("bytes_per_second"));
  EXPECT_EQ(json["differences"], Json::array({"host a1 is odd"}));
  EXPECT_EQ(json["loads"][0]["shared"], true);
  EXPECT_EQ(json["loads"][1]["pairs"], 4);
  EXPECT_EQ(describe_structure({}, {}, {}), "");
}

}  // namespace
}  // namespace tombolo::tools
