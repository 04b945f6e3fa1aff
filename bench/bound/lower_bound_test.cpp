// Lower bounds that can be computed by hand.
#include "bench/bound/lower_bound.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tombolo::bench {
namespace {

using collectives::Collective;

constexpr double kVector = 1e6, kWide = 1e12;

/// Hosts with one NIC each of 10 Gbit/s, of the clusters that these letters name: "AAB".
topology::ClusterFile file_of(std::string_view clusters) {
  topology::ClusterFile file;
  for (const char cluster : clusters) {
    topology::Host host;
    host.name = "h" + std::to_string(file.hosts.size());
    host.cluster = std::string(1, cluster);
    topology::Nic nic;
    nic.name = "eth0";
    nic.rate_bits_per_second = 10'000'000'000;
    host.nics.push_back(nic);
    file.hosts.push_back(host);
  }
  return file;
}

/// What leaves a cluster, and what comes to it, is shared: bytes per second.
void add_uplink(topology::ClusterFile& file, const std::string& cluster, double out, double in) {
  topology::SharedLink leaving, coming;
  for (const topology::Host& host : file.hosts)
    (host.cluster == cluster ? leaving.from : leaving.to).push_back({host.name, "eth0"});
  coming.from = leaving.to;
  coming.to = leaving.from;
  leaving.name = cluster + " out";
  coming.name = cluster + " in";
  leaving.bytes_per_second = out;
  coming.bytes_per_second = in;
  file.shared_links.push_back(leaving);
  file.shared_links.push_back(coming);
}

std::vector<std::string> hosts_of(const topology::ClusterFile& file) {
  std::vector<std::string> all;
  for (const topology::Host& host : file.hosts) all.push_back(host.name);
  return all;
}

double seconds_of(const topology::ClusterFile& file, Collective collective, int root = -1) {
  return lower_bound(file, hosts_of(file), collective, kVector, root).seconds;
}

TEST(LowerBound, OfTwoClustersIsWhatCrossesTheirLink) {
  topology::ClusterFile file = file_of("AABB");
  add_uplink(file, "A", 1e6, 1e6);
  EXPECT_DOUBLE_EQ(seconds_of(file, Collective::kAllReduce), 1);
  EXPECT_DOUBLE_EQ(seconds_of(file, Collective::kAllGather), 0.5);
  EXPECT_DOUBLE_EQ(seconds_of(file, Collective::kReduceScatter), 0.5);
  EXPECT_DOUBLE_EQ(seconds_of(file, Collective::kBroadcast, 0), 1);
  EXPECT_DOUBLE_EQ(seconds_of(file, Collective::kReduce, 3), 1);
  EXPECT_DOUBLE_EQ(seconds_of(file, Collective::kGather, 0), 0.5);
  EXPECT_DOUBLE_EQ(seconds_of(file, Collective::kScatter, 0), 0.5);
  EXPECT_DOUBLE_EQ(seconds_of(file, Collective::kAllToAll), 1)
      << "two ranks' quarters for each of two, twice";
  EXPECT_DOUBLE_EQ(seconds_of(file, Collective::kBarrier), 0);
}

TEST(LowerBound, CountsEachDirectionByItself) {
  topology::ClusterFile file = file_of("AAAB");
  add_uplink(file, "A", 1e6, 2e5);
  EXPECT_DOUBLE_EQ(seconds_of(file, Collective::kAllReduce), 5);
  EXPECT_DOUBLE_EQ(seconds_of(file, Collective::kAllGather), 1.25) << "a quarter at the slow rate";
  EXPECT_DOUBLE_EQ(seconds_of(file, Collective::kReduceScatter), 3.75) << "sums for three quarters come back";
  EXPECT_DOUBLE_EQ(seconds_of(file, Collective::kBroadcast, 0), 1);
  EXPECT_DOUBLE_EQ(seconds_of(file, Collective::kBroadcast, 3), 5);
}

TEST(LowerBound, OfMoreClustersIsWhatAllOfThemCarryTogether) {
  topology::ClusterFile file = file_of("AABBBCCCCC");
  for (const char* const cluster : {"A", "B", "C"}) add_uplink(file, cluster, 1e6, 1e6);
  EXPECT_NEAR(seconds_of(file, Collective::kAllReduce), 4.0 / 3, 1e-12);
  file = file_of("AABBBCCCCC");
  add_uplink(file, "A", 1e6, 1e6);
  add_uplink(file, "B", 2e6, 2e6);
  add_uplink(file, "C", 4e6, 4e6);
  const Bound bound = lower_bound(file, hosts_of(file), Collective::kAllReduce, kVector, -1);
  EXPECT_DOUBLE_EQ(bound.seconds, 1) << "the slowest uplink";
  EXPECT_NE(bound.cause.find(" A, 8 Mbit/s"), std::string::npos) << bound.cause;
}

TEST(LowerBound, LooksAtSeveralClustersTogether) {
  topology::ClusterFile file = file_of("ABCD");
  topology::SharedLink there{
      "there", {{"h0", "eth0"}, {"h1", "eth0"}}, {{"h2", "eth0"}, {"h3", "eth0"}}, 1e5};
  topology::SharedLink back{"back", there.to, there.from, 1e5};
  file.shared_links = {there, back};
  EXPECT_DOUBLE_EQ(seconds_of(file, Collective::kAllReduce), 10) << "between A with B, and C with D";
}

TEST(LowerBound, OfOneClusterIsThatOfItsNics) {
  const topology::ClusterFile file = file_of("AAAA");
  EXPECT_DOUBLE_EQ(seconds_of(file, Collective::kAllReduce), 1.5 * kVector / 1.25e9);
  EXPECT_EQ(lower_bound(file, {"h0", "h0"}, Collective::kAllReduce, kVector, -1).seconds, 0) << "one host";
  EXPECT_THROW(lower_bound(file, {"h0", "h9"}, Collective::kAllReduce, kVector, -1), Error);
}

TEST(LowerBound, AddsTheLatency) {
  topology::ClusterFile file = file_of("AB");
  add_uplink(file, "A", 1e6, 1e6);
  file.links = {{"h0", "eth0", "h1", "eth0", 1e6, 0.25, false},
                {"h1", "eth0", "h0", "eth0", 1e6, 0.25, false}};
  EXPECT_DOUBLE_EQ(seconds_of(file, Collective::kAllReduce), 1.25);
  EXPECT_DOUBLE_EQ(seconds_of(file, Collective::kBarrier), 0.25);
}

TEST(LowerBound, HasNothingToSayWhereNothingLimits) {
  const std::vector<Group> groups{{"A", 1, kWide, kWide, 0, false}, {"B", 1, kWide, kWide, 0, false}};
  EXPECT_LT(bound_of(Collective::kAllReduce, kVector, groups).seconds, 1e-5);
}

}  // namespace
}  // namespace tombolo::bench
