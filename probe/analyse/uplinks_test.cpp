#include "probe/analyse/uplinks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>

#include "base/randomized_test.h"

namespace tombolo::probe {
namespace {

topology::Host host_of(const std::string& name, bool joined = true) {
  topology::Host host;
  host.name = name;
  topology::Nic nic;
  nic.name = "eth0";
  nic.usable = joined;
  nic.addresses = {"10.0.0.1"};
  host.nics = {nic};
  return host;
}

GroupLoad between(std::size_t first, std::size_t second) {
  GroupLoad load;
  load.first = first;
  load.second = second;
  return load;
}

TEST(UplinkLoads, PairAGroupWithAllThatItSharesLinksWith) {
  std::vector<topology::Host> hosts;
  for (const char* name : {"a0", "a1", "b0", "b1", "c0", "c1"}) hosts.push_back(host_of(name));
  const std::vector<HostGroup> groups{{0, 1}, {2, 3}, {4, 5}};
  const auto loads = uplink_loads(hosts, groups, {between(0, 1), between(0, 2)});
  ASSERT_EQ(loads.size(), 1U) << "the others share a link with one each";
  EXPECT_EQ(loads[0].group, 0U);
  EXPECT_EQ(loads[0].others, (std::vector<std::size_t>{1, 2}));
  EXPECT_EQ(loads[0].pairs, (Step{{0, 2, 0, 0}, {1, 4, 0, 0}}));
  EXPECT_EQ(loads[0].other_of, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(uplink_loads(hosts, groups, {between(0, 1), between(0, 2), between(1, 2)}).size(), 3U);
}

TEST(UplinkLoads, AreNoneWhereOneHostWouldHaveToServeTwo) {
  std::vector<topology::Host> hosts;
  for (const char* name : {"a0", "a1", "b0", "c0"}) hosts.push_back(host_of(name, std::string(name) != "a1"));
  EXPECT_TRUE(uplink_loads(hosts, {{0, 1}, {2}, {3}}, {between(0, 1), between(0, 2)}).empty());
}

TEST(UplinkLoads, UseEachHostOnceInRandomClusters) {
  std::mt19937 random(test_seed());
  const auto some = [&](std::size_t low, std::size_t high) {
    return std::uniform_int_distribution<std::size_t>(low, high)(random);
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<topology::Host> hosts;
    std::vector<HostGroup> groups(some(3, 5));
    for (HostGroup& group : groups) {
      for (std::size_t left = some(1, 5); left > 0; --left) {
        group.push_back(hosts.size());
        hosts.push_back(host_of("h" + std::to_string(hosts.size()), some(0, 4) != 0));
      }
    }
    std::vector<GroupLoad> shared;
    for (std::size_t first = 0; first < groups.size(); ++first)
      for (std::size_t second = first + 1; second < groups.size(); ++second)
        if (some(0, 1) != 0) shared.push_back(between(first, second));
    for (const UplinkLoad& load : uplink_loads(hosts, groups, shared)) {
      std::set<std::size_t> used, reached;
      ASSERT_EQ(load.pairs.size(), load.other_of.size());
      for (std::size_t at = 0; at < load.pairs.size(); ++at) {
        const NicPair& pair = load.pairs[at];
        const HostGroup& right = groups[load.others[load.other_of[at]]];
        EXPECT_TRUE(std::ranges::find(groups[load.group], pair.left) != groups[load.group].end());
        EXPECT_TRUE(std::ranges::find(right, pair.right) != right.end());
        EXPECT_TRUE(used.insert(pair.left).second && used.insert(pair.right).second);
        EXPECT_TRUE(hosts[pair.left].nics[0].usable && hosts[pair.right].nics[0].usable);
        reached.insert(load.other_of[at]);
      }
      EXPECT_GT(reached.size(), 1U);
    }
  }
}

TEST(UplinkRate, IsFoundWhereAllOthersTogetherGetWhatOneWould) {
  UplinkLoad load;
  load.others = {1, 2};
  load.pairs = {{0, 2, 0, 0}, {1, 4, 0, 0}};
  load.other_of = {0, 1};
  const std::vector<UplinkShare> shares{{1e8, 1e8}, {1e8, 1e8}};
  EXPECT_EQ(uplink_rate(load, shares, {5e7, 4.5e7}), 1e8);
  EXPECT_FALSE(uplink_rate(load, shares, {1e8, 9e7})) << "links of their own";
  EXPECT_FALSE(uplink_rate(load, shares, {5e7, 0})) << "one failed";
  EXPECT_FALSE(uplink_rate(load, {{1e8, 1e8}, {0, 1e8}}, {5e7, 5e7})) << "nothing is shared with the second";
  EXPECT_FALSE(uplink_rate(load, {{4e8, 1e8}, {4e8, 1e8}}, {1e8, 1e8})) << "one pair each attains no more";
  // A narrow way to one of them, and a wide one to the other, by one link all the same.
  EXPECT_EQ(uplink_rate(load, {{1e8, 1e8}, {2e7, 2e7}}, {1e8, 2e7}), std::nullopt);
  EXPECT_EQ(uplink_rate(load, {{1e8, 1e8}, {6e7, 6e7}}, {5e7, 5e7}), 1e8);
}

}  // namespace
}  // namespace tombolo::probe
