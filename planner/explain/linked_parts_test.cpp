#include "planner/explain/linked_parts.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "planner/testing/testing_search.h"

namespace tombolo::planner {
namespace {

using testing::make_cluster;
using testing::SearchSetting;

/// Without the links for which `gone` holds.
topology::ClusterFile without(topology::ClusterFile cluster, const auto& gone) {
  std::erase_if(cluster.links, gone);
  return cluster;
}

TEST(LinkedParts, FollowLinksByWayOfOtherHosts) {
  // a0 - a1 - a2 in a row, and a3 by itself.
  const auto cluster = without(make_cluster({{"a", 4}}, 1e8), [](const topology::Link& link) {
    const int from = link.from_host.back() - '0', to = link.to_host.back() - '0';
    return std::abs(from - to) != 1 || std::max(from, to) == 3;
  });
  const SearchSetting setting(cluster, testing::free_job(8, 8));
  EXPECT_EQ(linked_parts(setting.context),
            (std::vector<std::vector<std::string>>{{"a0", "a1", "a2"}, {"a3"}}));
}

TEST(LinkedParts, ALinkInOneDirectionJoinsNothing) {
  const auto cluster = without(make_cluster({{"a", 2}}, 1e8),
                               [](const topology::Link& link) { return link.from_host == "a1"; });
  const SearchSetting setting(cluster, testing::free_job(8, 8));
  EXPECT_EQ(linked_parts(setting.context).size(), 2u);
}

TEST(LinkedParts, TheMessageNamesThePartsWhereThereAreSeveral) {
  const auto text_of = [](const topology::ClusterFile& cluster) -> std::string {
    const SearchSetting setting(cluster, testing::free_job(8, 8));
    try {
      fail_nothing_linked(setting.context, "no link from a0 to b0");
    } catch (const Error& error) {
      return error.what();
    }
  };
  const auto whole = make_cluster({{"a", 2}, {"b", 8}}, 1e8);
  EXPECT_EQ(text_of(whole), "no link from a0 to b0");
  const std::string text = text_of(without(
      whole, [](const topology::Link& link) { return link.from_host.front() != link.to_host.front(); }));
  EXPECT_NE(
      text.find("2 parts that no links join in both directions: a0, a1 | b0, b1, b2, b3, b4, b5, 2 more"),
      std::string::npos)
      << text;
}

}  // namespace
}  // namespace tombolo::planner
