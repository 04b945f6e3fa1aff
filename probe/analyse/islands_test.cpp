#include "probe/analyse/islands.h"

#include <gtest/gtest.h>

#include <functional>

namespace tombolo::probe {
namespace {

/// Hosts "a0", "a1", ... of the clusters of their first letters, each with a NIC "ib0" on InfiniBand of its
/// cluster and one on Ethernet; links as `rate` says (host, host, NIC), bytes per second, 0 = none.
topology::ClusterFile hosts_with_links(
    const std::vector<std::string>& hosts,
    const std::function<double(const std::string&, const std::string&, const std::string&)>& rate) {
  topology::ClusterFile cluster;
  for (const std::string& name : hosts) {
    topology::Host host;
    host.name = name;
    host.cluster = std::string(1, static_cast<char>(name[0] - 'a' + 'A'));
    topology::Nic fast, slow;
    fast.name = "ib0";
    fast.kind = topology::NicKind::kInfiniBand;
    fast.fabric = "ib-" + host.cluster;
    slow.name = "eth0";
    host.nics = {fast, slow};
    cluster.hosts.push_back(host);
  }
  for (const std::string& from : hosts)
    for (const std::string& to : hosts)
      for (const char* nic : {"ib0", "eth0"})
        if (const double speed = from != to ? rate(from, to, nic) : 0; speed > 0)
          cluster.links.push_back({from, nic, to, nic, speed, 1e-5, true});
  return cluster;
}

topology::ClusterFile holmes() {
  return hosts_with_links({"a0", "b0", "a1", "b1"},
                          [](const std::string& from, const std::string& to, const std::string& nic) {
                            if (nic == "eth0") return 1e8;
                            return from[0] == to[0] ? 2e9 : 0.0;
                          });
}

TEST(Islands, AreTheClustersWhereTheFastNicsReachThem) {
  const auto cluster = holmes();
  const auto islands = find_islands(cluster);
  ASSERT_EQ(islands.size(), 2U);
  EXPECT_EQ(islands[0].hosts, (std::vector<std::string>{"a0", "a1"}));
  EXPECT_TRUE(islands[0].close);
  EXPECT_EQ(islands[0].bytes_per_second, 2e9);
  EXPECT_EQ(islands[1].kinds, (std::vector<topology::NicKind>{topology::NicKind::kInfiniBand}));
  EXPECT_TRUE(compare_islands(cluster, islands).empty());
}

TEST(Islands, NameTheClustersOfHostsThatHaveNone) {
  auto cluster = holmes();
  const auto islands = find_islands(cluster);
  for (auto& host : cluster.hosts) host.cluster.clear();
  auto half_named = cluster;
  name_clusters(cluster, islands);
  EXPECT_EQ(cluster.find_host("a0")->cluster, "A");
  EXPECT_EQ(cluster.find_host("a1")->cluster, "A");
  EXPECT_EQ(cluster.find_host("b0")->cluster, "B");
  EXPECT_EQ(cluster.find_host("b1")->cluster, "B");
  half_named.hosts[0].cluster = "A";  // a0; the name is taken
  name_clusters(half_named, islands);
  EXPECT_EQ(half_named.find_host("a0")->cluster, "A");
  EXPECT_EQ(half_named.find_host("a1")->cluster, "B");
  EXPECT_EQ(half_named.find_host("b1")->cluster, "C");
  topology::ClusterFile unmeasured;
  unmeasured.hosts.resize(30);
  name_clusters(unmeasured, {});
  EXPECT_EQ(unmeasured.clusters(), (std::vector<std::string>{"A"}));
}

TEST(Islands, TellOfAClusterThatReachesOthersAsFastAsItself) {
  const auto cluster = hosts_with_links(
      {"a0", "a1", "b0", "b1"}, [](const std::string& from, const std::string& to, const std::string& nic) {
        if (nic == "eth0") return 1e8;
        return from[0] == 'a' && to[0] == 'a' ? 2e9 : 0.0;
      });
  const auto islands = find_islands(cluster);
  ASSERT_EQ(islands.size(), 2U);
  EXPECT_FALSE(islands[1].close);
  EXPECT_EQ(
      compare_islands(cluster, islands),
      (std::vector<std::string>{"hosts b0 b1 stand in cluster B, but reach the others about as fast (800 "
                                "Mbit/s) as each other (800 Mbit/s)"}));
}

TEST(Islands, TellOfAClusterThatFallsApartAndOfAHostThatStandsInTheWrongOne) {
  // b2 is near cluster A.
  const auto near = [](const std::string& host) { return host == "b2" ? 'a' : host[0]; };
  const auto cluster =
      hosts_with_links({"a0", "a1", "b0", "b1", "b2"},
                       [&](const std::string& from, const std::string& to, const std::string& nic) {
                         if (nic == "ib0") return 0.0;
                         return near(from) == near(to) ? 1e9 : 5e7;
                       });
  const auto told = compare_islands(cluster, find_islands(cluster));
  EXPECT_EQ(told,
            (std::vector<std::string>{
                "cluster B falls into islands: b2 | b0 b1 (8 Gbit/s inside); between them 400 Mbit/s",
                "hosts a0 a1 of cluster A and b2 of cluster B reach each other about as fast (8 Gbit/s) as "
                "inside one cluster (8 Gbit/s)"}));
}

TEST(Islands, SayNothingOfClustersOfOneHostEach) {
  const auto cluster = hosts_with_links(
      {"a0", "b0"}, [](const std::string&, const std::string&, const std::string&) { return 1e8; });
  EXPECT_EQ(find_islands(cluster).size(), 1U);
  EXPECT_TRUE(compare_islands(cluster, find_islands(cluster)).empty());
}

TEST(Islands, TellOfFabricsThatAreNotFasterThanTheRest) {
  auto cluster = hosts_with_links({"a0", "a1", "a2"},
                                  [](const std::string& from, const std::string& to, const std::string& nic) {
                                    if (nic == "eth0") return from == "a2" || to == "a2" ? 1e9 : 1e8;
                                    return from != "a2" && to != "a2" ? 1.1e9 : 0.0;
                                  });
  EXPECT_EQ(
      compare_islands(cluster, find_islands(cluster)),
      (std::vector<std::string>{"hosts a2 are not on infiniband fabric 'ib-A', yet reach a0 a1 about as "
                                "fast as these reach each other"}));
  // The InfiniBand of a2 is slow: one fabric, two islands.
  cluster = hosts_with_links({"a0", "a1", "a2"},
                             [](const std::string& from, const std::string& to, const std::string& nic) {
                               if (nic == "eth0") return 0.0;
                               return from != "a2" && to != "a2" ? 2e9 : 1e8;
                             });
  const auto told = compare_islands(cluster, find_islands(cluster));
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0], "cluster A falls into islands: a0 a1 (16 Gbit/s inside) | a2; between them 800 Mbit/s");
  EXPECT_EQ(told[1], "infiniband fabric 'ib-A' joins hosts that are islands apart: a0 a1 | a2");
}

TEST(Islands, TellLatencyApartToo) {
  auto cluster = hosts_with_links(
      {"a0", "a1", "b0", "b1"},
      [](const std::string&, const std::string&, const std::string& nic) { return nic == "eth0" ? 1e9 : 0; });
  EXPECT_EQ(find_islands(cluster).size(), 1U);
  for (auto& link : cluster.links)
    if (link.from_host[0] != link.to_host[0]) link.latency_seconds = 0.02;
  EXPECT_EQ(find_islands(cluster).size(), 2U);
}

}  // namespace
}  // namespace tombolo::probe
