#include "probe/rounds/schedule.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

namespace tombolo::probe {
namespace {

/// Hosts of two clusters, half in each, with a fast NIC per cluster and Ethernet for all.
std::vector<topology::Host> two_kinds(std::size_t count) {
  std::vector<topology::Host> hosts(count);
  for (std::size_t h = 0; h < count; ++h) {
    hosts[h].name = "h" + std::to_string(h);
    hosts[h].cluster = h < count / 2 ? "A" : "B";
    topology::Nic fast, slow;
    fast.name = "fast0";
    fast.kind = topology::NicKind::kInfiniBand;
    fast.fabric = hosts[h].cluster;
    slow.name = "eth0";
    for (topology::Nic* nic : {&fast, &slow}) nic->addresses = {"10.0.0." + std::to_string(h)};
    hosts[h].nics = {fast, slow};
  }
  return hosts;
}

std::vector<HostGroup> halves(std::size_t count) {
  std::vector<HostGroup> groups(2);
  for (std::size_t h = 0; h < count; ++h) groups[h < count / 2 ? 0 : 1].push_back(h);
  return groups;
}

void expect_disjoint(const Step& step) {
  std::set<std::size_t> busy;
  for (const NicPair& pair : step) {
    EXPECT_TRUE(busy.insert(pair.left).second);
    EXPECT_TRUE(busy.insert(pair.right).second);
  }
}

// What the whole run takes: the round robin's rounds for each kind of NIC, two steps for the two clusters,
// and those in which hosts load all their NICs.
TEST(Schedule, GrowsWithTheNumberOfHostsAndNotWithThatOfPairs) {
  const std::map<std::size_t, std::size_t> steps_of{{4, 7}, {16, 32}, {32, 64}, {64, 128}};
  for (const auto& [count, expected] : steps_of) {
    const auto hosts = two_kinds(count);
    const auto pairs = pair_steps(hosts);
    std::size_t measured = 0;
    for (const Step& step : pairs) {
      expect_disjoint(step);
      measured += step.size();
    }
    EXPECT_EQ(measured, count * (count - 1) / 2 + 2 * (count / 2 * (count / 2 - 1) / 2));
    const auto loads = group_loads(hosts, halves(count));
    ASSERT_EQ(loads.size(), 1U) << "only Ethernet joins the clusters";
    EXPECT_EQ(loads[0].pairs.size(), count / 2);
    EXPECT_EQ(loads[0].kind, topology::NicKind::kTcp);
    expect_disjoint(loads[0].pairs);
    const auto ports = port_steps(hosts, halves(count));
    const std::size_t steps = pairs.size() + 2 * loads.size() + ports.size();
    EXPECT_EQ(steps, expected) << count << " hosts";
    std::printf("%zu hosts: %zu steps for %zu pairs of NICs, 2 for the clusters, %zu for ports\n", count,
                pairs.size(), measured, ports.size());
  }
}

TEST(Schedule, LoadsEveryHostsNicsWithTwoOthersOfItsGroup) {
  for (const std::size_t count : {6, 8, 12, 14, 20}) {
    const auto hosts = two_kinds(count);
    std::map<std::size_t, std::set<std::size_t>> met;
    for (const Step& step : port_steps(hosts, halves(count))) {
      std::set<std::pair<std::size_t, std::size_t>> busy;  // NICs
      std::map<std::size_t, std::set<std::size_t>> others;
      for (const NicPair& pair : step) {
        EXPECT_TRUE(busy.emplace(pair.left, pair.left_nic).second);
        EXPECT_TRUE(busy.emplace(pair.right, pair.right_nic).second);
        others[pair.left].insert(pair.right);
        others[pair.right].insert(pair.left);
        EXPECT_EQ(hosts[pair.left].cluster, hosts[pair.right].cluster);
      }
      for (const auto& [host, with] : others) {
        EXPECT_EQ(with.size(), 1U);
        met[host].insert(with.begin(), with.end());
      }
    }
    ASSERT_EQ(met.size(), count);
    for (const auto& [host, with] : met) EXPECT_GE(with.size(), 2U) << host << " of " << count;
  }
}

TEST(Schedule, LetsHostsThatAreAloneInTheirGroupsLoadTheirNicsWithEachOther) {
  auto hosts = two_kinds(2);
  for (auto& host : hosts) host.nics[0].fabric = "joint";
  const auto ports = port_steps(hosts, {{0}, {1}});
  ASSERT_EQ(ports.size(), 1U);
  EXPECT_EQ(ports[0], (Step{{0, 1, 0, 0}, {0, 1, 1, 1}}));
  EXPECT_TRUE(group_loads(hosts, {{0}, {1}}).empty()) << "a single pair shares with no other";
}

TEST(Schedule, LoadsNoPortsWhereHostsHaveOneNic) {
  auto hosts = two_kinds(8);
  for (auto& host : hosts) host.nics.erase(host.nics.begin());
  EXPECT_TRUE(port_steps(hosts, halves(8)).empty());
}

}  // namespace
}  // namespace tombolo::probe
