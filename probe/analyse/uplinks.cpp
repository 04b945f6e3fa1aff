#include "probe/analyse/uplinks.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "probe/analyse/shared_links.h"
#include "probe/rounds/nic_pairs.h"

namespace tombolo::probe {
namespace {

/// The first NIC of a host on the load's fabric.
std::optional<std::size_t> nic_of(const topology::Host& host, const UplinkLoad& load) {
  for (std::size_t n = 0; n < host.nics.size(); ++n)
    if (joins(host.nics[n], load.kind, load.fabric)) return n;
  return std::nullopt;
}

/// Pairs the group's hosts with hosts of the other groups in turn, each host in at most one pair.
void add_pairs(const std::vector<topology::Host>& hosts, const std::vector<HostGroup>& groups,
               UplinkLoad& load) {
  std::vector<std::size_t> next(load.others.size());  // the next free host of each other group
  std::size_t turn = 0;
  for (const std::size_t left : groups[load.group]) {
    const auto left_nic = nic_of(hosts[left], load);
    if (!left_nic) continue;
    for (std::size_t tried = 0; tried < load.others.size(); ++tried, ++turn) {
      const std::size_t other = turn % load.others.size();
      const HostGroup& group = groups[load.others[other]];
      std::optional<std::size_t> right_nic;
      while (next[other] < group.size() && !(right_nic = nic_of(hosts[group[next[other]]], load)))
        ++next[other];
      if (!right_nic) continue;
      load.pairs.push_back({left, group[next[other]++], *left_nic, *right_nic});
      load.other_of.push_back(other);
      ++turn;
      break;
    }
  }
}

}  // namespace

std::vector<UplinkLoad> uplink_loads(const std::vector<topology::Host>& hosts,
                                     const std::vector<HostGroup>& groups,
                                     const std::vector<GroupLoad>& shared) {
  std::map<std::tuple<std::size_t, topology::NicKind, std::string>, std::vector<std::size_t>> others;
  for (const GroupLoad& load : shared) {
    others[{load.first, load.kind, load.fabric}].push_back(load.second);
    others[{load.second, load.kind, load.fabric}].push_back(load.first);
  }
  std::vector<UplinkLoad> loads;
  for (const auto& [key, with] : others) {
    UplinkLoad load;
    std::tie(load.group, load.kind, load.fabric) = key;
    load.others = with;
    add_pairs(hosts, groups, load);
    const std::set<std::size_t> reached(load.other_of.begin(), load.other_of.end());
    if (reached.size() > 1) loads.push_back(std::move(load));
  }
  return loads;
}

std::optional<double> uplink_rate(const UplinkLoad& load, const std::vector<UplinkShare>& shares,
                                  const std::vector<double>& together) {
  LoadSample by_other;
  for (std::size_t other = 0; other < load.others.size(); ++other) {
    double pairs = 0, sum = 0;
    for (std::size_t pair = 0; pair < load.pairs.size(); ++pair) {
      if (load.other_of[pair] != other) continue;
      if (together[pair] <= 0) return std::nullopt;  // nothing follows where a pair failed
      ++pairs;
      sum += together[pair];
    }
    if (pairs == 0) continue;
    if (shares[other].shared <= 0) return std::nullopt;
    by_other.alone.push_back(std::min(shares[other].shared, pairs * shares[other].of_single_pair));
    by_other.together.push_back(sum);
  }
  return shared_rate(by_other);
}

}  // namespace tombolo::probe
