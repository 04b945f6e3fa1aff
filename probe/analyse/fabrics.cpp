#include "probe/analyse/fabrics.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"

namespace tombolo::probe {
namespace {

/// Numbers the groups of hosts on a fabric: hosts that measured links join, directly or through others, have
/// the same number.
std::map<std::string, std::size_t> groups_of(const topology::ClusterFile& cluster, const std::string& fabric,
                                             const std::set<std::string>& hosts) {
  auto is_on = [&](const std::string& host_name, const std::string& nic_name) {
    const topology::Host* host = cluster.find_host(host_name);
    return host != nullptr && std::ranges::any_of(host->nics, [&](const topology::Nic& nic) {
             return nic.name == nic_name && nic.fabric == fabric;
           });
  };
  std::map<std::string, std::size_t> group;
  for (const std::string& host : hosts) group.emplace(host, group.size());
  for (const topology::Link& link : cluster.links) {
    if (!is_on(link.from_host, link.from_nic) || !is_on(link.to_host, link.to_nic)) continue;
    auto from = group.find(link.from_host), to = group.find(link.to_host);
    if (from == group.end() || to == group.end() || from->second == to->second) continue;
    const std::size_t keep = from->second, gone = to->second;
    for (auto& [host, number] : group) number = number == gone ? keep : number;
  }
  return group;
}

bool lies_on(const topology::Host& host, const std::string& fabric) {
  return std::ranges::any_of(host.nics, [&](const topology::Nic& nic) { return nic.fabric == fabric; });
}

bool is_used(const topology::ClusterFile& cluster, const std::string& fabric) {
  return std::ranges::any_of(cluster.hosts, [&](const auto& host) { return lies_on(host, fabric); });
}

/// Names the fabric of a group: "F-A" where the group is all that cluster A has on F, else "F-a0".
std::string name_for(const topology::ClusterFile& cluster, const std::string& fabric,
                     const std::vector<std::string>& group, const std::vector<std::string>& taken) {
  const std::string& name = cluster.find_host(group.front())->cluster;
  const bool is_cluster = std::ranges::all_of(cluster.hosts, [&](const topology::Host& host) {
    const bool inside = std::ranges::find(group, host.name) != group.end();
    return !lies_on(host, fabric) || (host.cluster == name) == inside;
  });
  std::string made = fmt::format("{}-{}", fabric, is_cluster ? name : group.front());
  while (is_used(cluster, made) || std::ranges::find(taken, made) != taken.end()) made += '+';
  return made;
}

void rename(topology::ClusterFile& cluster, const std::string& host_name, const std::string& old_name,
            const std::string& new_name) {
  for (topology::Host& host : cluster.hosts) {
    if (host.name != host_name) continue;
    for (topology::Nic& nic : host.nics) {
      if (nic.fabric == old_name) nic.fabric = new_name;
    }
  }
}

/// Declares the new names unreachable from each other. What was declared for the old name is declared for
/// each of them.
void declare(topology::ClusterFile& cluster, const std::string& old_name,
             const std::vector<std::string>& names) {
  auto before = std::exchange(cluster.unreachable, {});
  for (const auto& [first, second] : before) {
    const bool old_first = first == old_name, old_second = second == old_name;
    if ((!old_first && !old_second) || is_used(cluster, old_name))
      cluster.unreachable.emplace_back(first, second);
    if (!old_first && !old_second) continue;
    for (const std::string& name : names) cluster.unreachable.emplace_back(name, old_first ? second : first);
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    for (std::size_t j = i + 1; j < names.size(); ++j) cluster.unreachable.emplace_back(names[i], names[j]);
  }
}

}  // namespace

std::vector<std::string> separate_fabrics(topology::ClusterFile& cluster,
                                          const std::vector<LinkFailure>& failures,
                                          std::vector<std::string>& unexplained) {
  std::set<std::string> failed;
  for (const LinkFailure& failure : failures) failed.insert(failure.fabric);
  std::vector<std::string> findings;
  for (const std::string& fabric : failed) {
    std::set<std::string> hosts;
    for (const LinkFailure& failure : failures) {
      if (failure.fabric == fabric) hosts.insert({failure.from_host, failure.to_host});
    }
    for (const topology::Link& link : cluster.links) hosts.insert({link.from_host, link.to_host});
    std::erase_if(hosts, [&](const std::string& name) {
      const topology::Host* host = cluster.find_host(name);
      return host == nullptr || std::ranges::none_of(host->nics, [&](const topology::Nic& nic) {
               return nic.usable && nic.fabric == fabric;
             });
    });
    const auto group = groups_of(cluster, fabric, hosts);
    for (const LinkFailure& failure : failures) {
      if (failure.fabric != fabric) continue;
      const bool apart = !fabric.empty() && group.contains(failure.from_host) &&
                         group.contains(failure.to_host) &&
                         group.at(failure.from_host) != group.at(failure.to_host);
      if (apart) continue;
      unexplained.push_back(fmt::format("{} {} and {} {} did not reach each other: {}", failure.from_host,
                                        failure.from_nic, failure.to_host, failure.to_nic, failure.reason));
    }
    std::map<std::size_t, std::vector<std::string>> members;
    for (const auto& [host, number] : group) members[number].push_back(host);
    if (fabric.empty() || members.size() < 2) continue;

    std::vector<std::string> parts;
    std::string list;
    for (const auto& [number, names] : members) {
      parts.push_back(name_for(cluster, fabric, names, parts));
      list += fmt::format("{}'{}' ({})", list.empty() ? "" : ", ", parts.back(), fmt::join(names, " "));
    }
    std::size_t part = 0;
    for (const auto& [number, names] : members) {
      for (const std::string& name : names) rename(cluster, name, fabric, parts[part]);
      ++part;
    }
    declare(cluster, fabric, parts);
    findings.push_back(fmt::format(
        "nothing passes between these parts of fabric '{}', so that the cluster file calls them {}", fabric,
        list));
  }
  return findings;
}

}  // namespace tombolo::probe
