// The ends of links. What is refused in a whole file: cluster_file_test.cpp.
#include "topology/files/cluster_file_links.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tombolo::topology {
namespace {

const NicsByHost kNicsOfLinks{{"a", {"eth0", "mlx5_0/1", "mlx5_0"}}, {"b", {"eth0"}}};

Json link_between(const char* from, const char* to) {
  return {{"from", from}, {"to", to}, {"bytes_per_second", 1e9}, {"latency_seconds", 1e-6}};
}

std::vector<Link> read_links(const Json& list) {
  return links_of(JsonDocument::parse(list.dump(), "c.json").root(), kNicsOfLinks);
}

std::string refusal_of_links(const Json& list) {
  try {
    read_links(list);
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "accepted: " << list.dump();
  return {};
}

TEST(ClusterFileLinks, MayNameNicsThatHoldASlash) {
  const auto links = read_links(Json::array({link_between("a/mlx5_0/1", "b/eth0")}));
  ASSERT_EQ(links.size(), 1U);
  EXPECT_EQ(links[0].from_host, "a");
  EXPECT_EQ(links[0].from_nic, "mlx5_0/1");
  EXPECT_EQ(links[0].to_nic, "eth0");
  EXPECT_FALSE(links[0].measured) << "unless the file says so";
}

TEST(ClusterFileLinks, HaveADirection) {
  EXPECT_EQ(read_links(Json::array({link_between("a/eth0", "b/eth0"), link_between("b/eth0", "a/eth0"),
                                    link_between("a/mlx5_0", "b/eth0")}))
                .size(),
            3U);
  EXPECT_NE(
      refusal_of_links(Json::array({link_between("a/eth0", "b/eth0"), link_between("a/eth0", "b/eth0")}))
          .find("[1]: the link from \"a/eth0\" to \"b/eth0\" is given twice"),
      std::string::npos);
}

TEST(ClusterFileLinks, RefuseEndsThatAreNoneWhereTheyStand) {
  const auto expect = [](const char* from, std::string_view part) {
    const std::string text = refusal_of_links(Json::array({link_between(from, "b/eth0")}));
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect("a", "[0].from: expected \"host/nic\", found \"a\"");
  expect("/eth0", "there is no host \"\"");
  expect("a/", "host \"a\" has no NIC \"\"");
  expect("a/mlx5_0/2", "host \"a\" has no NIC \"mlx5_0/2\"; did you mean \"mlx5_0/1\"?");
}

}  // namespace
}  // namespace tombolo::topology
