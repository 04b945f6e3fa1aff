#include "net_plugin/tuner/knowledge.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
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
    expect_unknown(knowledge_of(mode, nullptr, 2), "neither TOMBOLO_CLUSTER nor TOMBOLO_TUNER_LINK");
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

TEST(TunerKnowledge, CountsTheNicsThatEveryHostHasForOtherClusters) {
  EXPECT_EQ(file_of({.hosts = {2, 2}}).span.nics, 1);
  const auto host = [](const char* name, const char* cluster, int last, int nics) {
    std::string listed;
    for (int i = 0; i < nics; ++i) {
      listed += fmt::format(R"({}{{"name": "eth{}", "kind": "tcp", "address": "10.{}.0.{}"}})",
                            i > 0 ? ", " : "", i, i, last);
    }
    return fmt::format(R"({{"name": "{}", "cluster": "{}", "nics": [{}], "devices": []}})", name, cluster,
                       listed);
  };
  const std::string text = fmt::format(
      R"({{"tombolo_cluster": 1, "hosts": [{}, {}, {}], "fabrics": [
        {{"from_cluster": "A", "to_cluster": "B", "bytes_per_second": 1e9, "latency_seconds": 0.01}},
        {{"from_cluster": "B", "to_cluster": "A", "bytes_per_second": 1e9, "latency_seconds": 0.01}}],
        "links": [{{"from": "a0/eth2", "to": "b0/eth0", "bytes_per_second": 1e8, "latency_seconds": 0.01}},
                  {{"from": "a0/eth2", "to": "b0/eth1", "bytes_per_second": 1e8, "latency_seconds": 0.01}}]}})",
      host("a0", "A", 1, 3), host("b0", "B", 2, 2), host("b1", "B", 3, 2));
  EXPECT_EQ(TunerFile::parse("c.json", text).span.nics, 2) << "a0's third is far slower";
}

TEST(TunerKnowledge, ALineSaysWhatTheTunerNeedsInPlaceOfAFile) {
  const TunerFile file =
      TunerFile::parse_link("TOMBOLO_TUNER_LINK", " hosts=2+4  rate=10gbit rtt=20ms shared=25gbit nics=2");
  const Knowledge known = knowledge_of(TunerMode::kAuto, &file, 6);
  ASSERT_TRUE(known.span) << known.reason;
  EXPECT_EQ(known.reason, "6 nodes span the 2 clusters of TOMBOLO_TUNER_LINK");
  EXPECT_EQ(known.span->hosts, (std::vector<int>{2, 4}));
  EXPECT_DOUBLE_EQ(known.span->between.bytes_per_second, 1.25e9);
  EXPECT_DOUBLE_EQ(known.span->between.latency_seconds, 0.01);
  EXPECT_DOUBLE_EQ(known.span->shared_bytes_per_second, 3.125e9);
  EXPECT_EQ(known.span->nics, 2);
  EXPECT_FALSE(knowledge_of(TunerMode::kAuto, &file, 4).span) << "they may be in the second";
  EXPECT_NE(file.content_hash,
            TunerFile::parse_link("TOMBOLO_TUNER_LINK", "hosts=2+4 rate=10gbit rtt=20ms").content_hash);
}

TEST(TunerKnowledge, ALineThatCannotBeReadIsNamed) {
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {"hosts=2+4 rate=10gbit", "lacks rtt=20ms"},
           {"hosts=2+4 rtt=20ms", "lacks rate=10gbit"},
           {"rate=10gbit rtt=20ms", "lacks hosts=2+4"},
           {"hosts=6 rate=10gbit rtt=20ms", "hosts: '6' names one cluster"},
           {"hosts=2+ rate=10gbit rtt=20ms", "hosts: '' is no number"},
           {"hosts=2+0 rate=10gbit rtt=20ms", "hosts: '0' is no number"},
           {"hosts=2+4 rate=fast rtt=20ms", "TOMBOLO_TUNER_LINK: rate"},
           {"hosts=2+4 rate=10gbit rtt=far", "TOMBOLO_TUNER_LINK: rtt"},
           {"hosts=2+4 rate=10gbit rtt=20ms nics=many", "nics: 'many' is no number"},
           {"hosts=2+4 rate=10gbit rtt=20ms loss=1", "'loss=1' is none of hosts="},
           {"", "lacks hosts=2+4"}}) {
    try {
      TunerFile::parse_link("TOMBOLO_TUNER_LINK", text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace tombolo::net_plugin
