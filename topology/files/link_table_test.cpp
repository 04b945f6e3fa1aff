#include "topology/files/link_table.h"

#include <gtest/gtest.h>

#include <chrono>

#include "base/randomized_test.h"

namespace tombolo::topology {
namespace {

Nic nic(const char* name, NicKind kind, const char* fabric, double gbps = 0) {
  Nic made;
  made.name = name;
  made.kind = kind;
  made.fabric = fabric;
  made.rate_bits_per_second = static_cast<std::uint64_t>(gbps * 1e9);
  return made;
}

/// a0, a1 in cluster A, b0 in B: "ib" inside of A, "eth" everywhere; b0's is a slow one.
ClusterFile three_hosts() {
  ClusterFile file;
  for (const char* name : {"a0", "a1", "b0"}) {
    Host host;
    host.name = name;
    host.cluster = name[0] == 'a' ? "A" : "B";
    if (name[0] == 'a') host.nics.push_back(nic("ib", NicKind::kInfiniBand, "ib-A", 200));
    host.nics.push_back(nic("eth", NicKind::kTcp, "", name[0] == 'a' ? 25 : 8));
    file.hosts.push_back(host);
  }
  return file;
}

TEST(LinkTable, TakesALinkBeforeTheFabricsDefault) {
  ClusterFile file = three_hosts();
  file.fabrics = {{"ib-A", "", "", 2e10, 2e-6}};
  file.links = {{"a0", "ib", "a1", "ib", 1.7e10, 3e-6, true}};
  const LinkTable table(file);
  const auto measured = table.find("a0", "ib", "a1", "ib");
  ASSERT_TRUE(measured);
  EXPECT_EQ(measured->bytes_per_second, 1.7e10);
  EXPECT_EQ(measured->latency_seconds, 3e-6);
  EXPECT_TRUE(measured->measured);
  const auto usual = table.find("a1", "ib", "a0", "ib");
  ASSERT_TRUE(usual);
  EXPECT_EQ(usual->bytes_per_second, 2e10);
  EXPECT_EQ(usual->latency_seconds, 2e-6);
  EXPECT_FALSE(usual->measured);
}

TEST(LinkTable, TakesTheEntryForTwoClustersBeforeTheFabricAsAWhole) {
  ClusterFile file = three_hosts();
  file.fabrics = {{"", "", "", 1e9, 1e-5}, {"", "A", "B", 5e8, 1e-3}};
  const LinkTable table(file);
  EXPECT_EQ(table.find("a0", "eth", "b0", "eth")->bytes_per_second, 5e8);
  EXPECT_EQ(table.find("b0", "eth", "a0", "eth")->bytes_per_second, 1e9) << "one direction";
  EXPECT_EQ(table.find("a0", "eth", "a1", "eth")->latency_seconds, 1e-5);
}

TEST(LinkTable, GivesNoMoreThanEitherNicsRate) {
  ClusterFile file = three_hosts();
  file.fabrics = {{"", "", "", 3e9, 1e-5}};
  const LinkTable table(file);
  EXPECT_EQ(table.find("a0", "eth", "a1", "eth")->bytes_per_second, 3e9);
  EXPECT_EQ(table.find("a0", "eth", "b0", "eth")->bytes_per_second, 1e9);
  EXPECT_EQ(table.find("b0", "eth", "a0", "eth")->bytes_per_second, 1e9);
}

TEST(LinkTable, KnowsNothingWhereNothingIsSaid) {
  ClusterFile file = three_hosts();
  file.fabrics = {{"", "A", "B", 5e8, 1e-3}};
  file.hosts[2].nics.push_back(nic("odd", NicKind::kRoce, "", 25));
  const LinkTable table(file);
  EXPECT_FALSE(table.find("a0", "eth", "a1", "eth")) << "other clusters";
  EXPECT_FALSE(table.find("a0", "ib", "a1", "ib")) << "another fabric";
  EXPECT_FALSE(table.find("a0", "ib", "b0", "eth")) << "two fabrics";
  EXPECT_FALSE(table.find("a0", "eth", "b0", "odd")) << "two kinds";
  EXPECT_FALSE(table.find("a0", "eth", "a0", "eth")) << "one host";
  EXPECT_FALSE(table.find("a0", "none", "b0", "eth"));
  EXPECT_FALSE(table.find("x", "eth", "b0", "eth"));
}

TEST(LinkTable, KnowsTheMostThatANicSendsAndReceives) {
  ClusterFile file = three_hosts();
  file.fabrics = {{"", "", "", 3e9, 1e-5}, {"", "B", "A", 5e8, 1e-3}};
  file.links = {{"a0", "ib", "a1", "ib", 1.7e10, 3e-6, true}, {"a0", "ib", "a0", "ib", 9e10, 1e-6, true}};
  const LinkTable table(file);
  EXPECT_EQ(table.egress(0, 0), 1.7e10) << "not what passes inside of the host";
  EXPECT_EQ(table.ingress(0, 0), 0);
  EXPECT_EQ(table.ingress(1, 0), 1.7e10);
  EXPECT_EQ(table.egress(0, 1), 3e9);
  EXPECT_EQ(table.egress(2, 0), 1e9) << "its own rate";
  file.fabrics.erase(file.fabrics.begin());
  const LinkTable between(file);
  EXPECT_EQ(between.egress(2, 0), 5e8);
  EXPECT_EQ(between.ingress(2, 0), 0);
  EXPECT_EQ(between.ingress(0, 1), 5e8);
}

TEST(LinkTable, AnswersForThousandsOfHostsAtOnce) {
  ClusterFile file;
  for (int h = 0; h < 4000; ++h) {
    Host host;
    host.name = "h" + std::to_string(h);
    host.cluster = "C" + std::to_string(h / 500);
    host.nics.push_back(nic("eth", NicKind::kTcp, "", 25));
    file.hosts.push_back(host);
  }
  file.fabrics = {{"", "", "", 3e9, 1e-5}};
  const auto begin = std::chrono::steady_clock::now();
  const LinkTable table(file);
  double sum = 0;
  constexpr int kRounds = test_rounds(1000);
  for (int round = 0; round < kRounds; ++round)
    for (int h = 1; h < 4000; ++h) sum += table.find(0, 0, h, 0)->bytes_per_second;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_EQ(sum, kRounds * 3999 * 3e9);
  EXPECT_LT(seconds, kSanitized ? 600 : 30) << "4e6 questions: searching a list of hosts would take minutes";
}

}  // namespace
}  // namespace tombolo::topology
