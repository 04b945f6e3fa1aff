#include "net_plugin/tuner/knowledge.h"

#include <gtest/gtest.h>

#include "net_plugin/testing/cluster_json.h"

namespace tombolo::net_plugin {
namespace {

using testing_support::ClusterJson;

TunerFile file_of(const ClusterJson& cluster) {
  return TunerFile::parse("c.json", cluster.text());
}

void expect_unknown(const Knowledge& knowledge, std::string_view why) {
  EXPECT_FALSE(knowledge.span);
  EXPECT_NE(knowledge.reason.find(why), std::string::npos) << knowledge.reason;
}

TEST(TunerKnowledge, OnlyACommunicatorThatExceedsEveryClusterIsKnownToSpan) {
  const TunerFile file = file_of({.hosts = {3, 2}});
  for (const std::size_t nodes : {0, 1})
    expect_unknown(knowledge_of(TunerMode::kAuto, &file, nodes), "one node");
  for (const std::size_t nodes : {2, 3})
    expect_unknown(knowledge_of(TunerMode::kAuto, &file, nodes),
                   "may all be in cluster 'C0', which has 3 hosts");
  for (const std::size_t nodes : {4, 5})
    EXPECT_TRUE(knowledge_of(TunerMode::kAuto, &file, nodes).span) << nodes;
  expect_unknown(knowledge_of(TunerMode::kAuto, &file, 6), "more than the 5 hosts");
}

TEST(TunerKnowledge, TheUserMaySayThatAllSpan) {
  const TunerFile file = file_of({.hosts = {3, 2}});
  for (const std::size_t nodes : {2, 3, 4, 5})
    EXPECT_TRUE(knowledge_of(TunerMode::kSpanning, &file, nodes).span) << nodes;
  expect_unknown(knowledge_of(TunerMode::kSpanning, &file, 1), "one node");
  expect_unknown(knowledge_of(TunerMode::kSpanning, &file, 6), "more than the 5 hosts");
}

TEST(TunerKnowledge, WithoutAFileWithOneClusterOrSwitchedOffNothingIsKnown) {
  const TunerFile one = file_of({.hosts = {4}}), two = file_of({.hosts = {1, 1}});
  for (const TunerMode mode : {TunerMode::kAuto, TunerMode::kSpanning}) {
    expect_unknown(knowledge_of(mode, nullptr, 2), "no cluster file");
    expect_unknown(knowledge_of(mode, &one, 2), "one cluster");
  }
  expect_unknown(knowledge_of(TunerMode::kOff, &two, 2), "TOMBOLO_TUNER=off");
}

TEST(TunerKnowledge, TakesTheSlowestPairOfHosts) {
  ClusterJson cluster{.hosts = {2, 2}};
  cluster.more = R"(, "links": [
    {"from": "c0h0/eth0", "to": "c1h0/eth0", "bytes_per_second": 2e9, "latency_seconds": 0.001},
    {"from": "c0h1/eth0", "to": "c1h1/eth0", "bytes_per_second": 5e7, "latency_seconds": 0.002},
    {"from": "c1h0/eth0", "to": "c0h0/eth0", "bytes_per_second": 3e9, "latency_seconds": 0.03},
    {"from": "c0h0/eth0", "to": "c0h1/eth0", "bytes_per_second": 7e9, "latency_seconds": 4e-6}])";
  const TunerFile file = file_of(cluster);
  const Knowledge known = knowledge_of(TunerMode::kAuto, &file, 3);
  ASSERT_TRUE(known.span) << known.reason;
  EXPECT_EQ(known.span->hosts, (std::vector<int>{2, 2}));
  EXPECT_EQ(known.span->between.bytes_per_second, 5e7);
  EXPECT_EQ(known.span->between.latency_seconds, 0.03);
  EXPECT_EQ(known.span->inside.bytes_per_second, 7e9);
  EXPECT_EQ(known.span->inside.latency_seconds, 5e-6) << "the default of C1";
  EXPECT_EQ(known.span->shared_bytes_per_second, 0);
}

TEST(TunerKnowledge, AnUplinkBoundsAllHostsTogetherAndAPortItsOwn) {
  ClusterJson cluster{.hosts = {2, 2}};
  cluster.more = R"(, "shared_links": [
    {"name": "uplink", "from": ["c0h0/eth0", "c0h1/eth0"], "to": ["c1h0/eth0", "c1h1/eth0"], "bytes_per_second": 1.5e8},
    {"name": "port", "from": ["c1h0/eth0"], "to": ["c0h0/eth0", "c0h1/eth0"], "bytes_per_second": 1e8},
    {"name": "rack", "from": ["c1h0/eth0"], "to": ["c1h1/eth0"], "bytes_per_second": 1e6}])";
  const TunerFile file = file_of(cluster);
  const Knowledge known = knowledge_of(TunerMode::kAuto, &file, 4);
  ASSERT_TRUE(known.span) << known.reason;
  EXPECT_EQ(known.span->shared_bytes_per_second, 1.5e8);
  EXPECT_EQ(known.span->between.bytes_per_second, 1e8);
}

TEST(TunerKnowledge, ARateThatTheFileLacksIsNamed) {
  const TunerFile file = TunerFile::parse("c.json", R"({"tombolo_cluster": 1, "hosts": [
    {"name": "a", "cluster": "A", "nics": [{"name": "eth0", "kind": "tcp"}], "devices": []},
    {"name": "b", "cluster": "B", "nics": [{"name": "eth0", "kind": "tcp"}], "devices": []}]})");
  expect_unknown(knowledge_of(TunerMode::kAuto, &file, 2), "no rate from cluster 'A' to 'B'");
}

TEST(TunerKnowledge, TheHashIsOfTheBytes) {
  const ClusterJson cluster{.hosts = {1, 1}};
  EXPECT_EQ(file_of(cluster).content_hash, file_of(cluster).content_hash);
  EXPECT_NE(file_of(cluster).content_hash, TunerFile::parse("c.json", cluster.text() + " ").content_hash);
}

}  // namespace
}  // namespace tombolo::net_plugin
