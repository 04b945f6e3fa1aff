#include "planner/explain/what_if.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "planner/testing/testing.h"
#include "topology/files/link_table.h"

namespace tombolo::planner {
namespace {

using testing::make_cluster;
using testing::small_model;
using topology::NicKind;

topology::ClusterFile clusters_to_change() {
  return make_cluster({{"a", 2, 1, NicKind::kInfiniBand, 1e9}, {"b", 2, 1, NicKind::kRoce, 1e9}}, 1e7, 1e-3);
}

topology::ClusterFile changed(const std::string& text) {
  return with_changes(clusters_to_change(), parse_changes(text));
}

void expect_refused(const std::string& text, const std::string& part) {
  try {
    changed(text);
    ADD_FAILURE() << text << " was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(WhatIf, LosesAHostWithItsLinks) {
  const auto cluster = changed("lose b1");
  EXPECT_EQ(cluster.hosts.size(), 3U);
  EXPECT_EQ(cluster.find_host("b1"), nullptr);
  for (const auto& link : cluster.links) EXPECT_TRUE(link.from_host != "b1" && link.to_host != "b1");
  EXPECT_EQ(changed("lose b").hosts.size(), 2U);
}

TEST(WhatIf, SetsTheLinkThatRoutingTakesInBothDirections) {
  const auto cluster = changed("link a b 8Mbit 5ms");
  for (const auto& [from, to] : {std::pair{"a1", "b0"}, std::pair{"b0", "a1"}}) {
    const auto link = topology::LinkTable(cluster).find(from, "eth", to, "eth");
    ASSERT_TRUE(link);
    EXPECT_DOUBLE_EQ(link->bytes_per_second, 1e6);
    EXPECT_DOUBLE_EQ(link->latency_seconds, 5e-3);
    EXPECT_FALSE(link->measured);
  }
  // Inside a cluster the fast NIC is the one that routing takes, and the latency stays.
  const auto inside = changed("link a0 a1 80Gbit");
  EXPECT_DOUBLE_EQ(topology::LinkTable(inside).find("a0", "fast", "a1", "fast")->bytes_per_second, 1e10);
  EXPECT_DOUBLE_EQ(topology::LinkTable(inside).find("a0", "eth", "a1", "eth")->bytes_per_second, 1e7);
}

TEST(WhatIf, TakesSharedLinksAlong) {
  auto cluster = clusters_to_change();
  cluster.shared_links = {
      {"a to b", {{"a0", "eth"}, {"a1", "eth"}}, {{"b0", "eth"}, {"b1", "eth"}}, 1e7},
      {"b0 out", {{"b0", "fast"}, {"b0", "eth"}}, {{"a0", "eth"}, {"b1", "fast"}, {"b1", "eth"}}, 2e9}};
  const auto after = [&](const std::string& text) {
    return with_changes(cluster, parse_changes(text)).shared_links;
  };
  const auto without = after("lose b1");
  ASSERT_EQ(without.size(), 2U);
  EXPECT_EQ(without[0].to, (std::vector<topology::NicName>{{"b0", "eth"}}));
  EXPECT_EQ(without[1].to, (std::vector<topology::NicName>{{"a0", "eth"}}));
  EXPECT_TRUE(after("lose b").empty());
  ASSERT_EQ(after("lose a").size(), 1U);
  // Of the first every pair is named, of the second not.
  const auto faster = after("link a b 8Gbit");
  EXPECT_DOUBLE_EQ(faster[0].bytes_per_second, 1e9);
  EXPECT_DOUBLE_EQ(faster[1].bytes_per_second, 2e9);
  EXPECT_DOUBLE_EQ(after("link a0 b0 8Gbit")[0].bytes_per_second, 1e7);
}

TEST(WhatIf, AddsALinkThatTheFileDoesNotHave) {
  auto cluster = clusters_to_change();
  std::erase_if(cluster.links,
                [](const auto& link) { return link.from_host == "a0" && link.to_host == "b0"; });
  const auto with = with_changes(cluster, parse_changes("link a0 b0 1Gbit"));
  const auto link = topology::LinkTable(with).find("a0", "eth", "b0", "eth");
  ASSERT_TRUE(link);
  EXPECT_DOUBLE_EQ(link->bytes_per_second, 1.25e8);
}

TEST(WhatIf, ChangesSpeedsAndTakesSeveralChangesInTurn) {
  const auto cluster = changed("speed b0 0.5; lose b0;speed b1 2");
  EXPECT_EQ(cluster.hosts.size(), 3U);
  EXPECT_DOUBLE_EQ(cluster.find_host("b1")->devices[0].flops_per_second, 2e9);
}

TEST(WhatIf, NamesWhatItCannotRead) {
  expect_refused("", "expected \"lose NAME\"");
  expect_refused("lose", "expected \"lose NAME\"");
  expect_refused("lose c9", "neither a host (a0, a1, b0, b1) nor a cluster (a, b)");
  expect_refused("lose a; lose b", "no host left");
  expect_refused("link a b fast", "rate");
  expect_refused("link a b 1Gbit 5", "latency \"5\"");
  expect_refused("link a b 1Gbit -5ms", "latency");
  expect_refused("link a0 a0 1Gbit", "one host only");
  expect_refused("speed a -1", "factor");
  expect_refused("speed a 1x", "factor");
  auto clusters = clusters_to_change();
  clusters.hosts[0].nics.pop_back();  // no Ethernet
  EXPECT_THROW(with_changes(clusters, parse_changes("link a0 b0 1Gbit")), Error);
}

}  // namespace
}  // namespace tombolo::planner
