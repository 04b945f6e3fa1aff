#include "probe/analyse/islands.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/units.h"

namespace tombolo::probe {
namespace {

// The size of message by which distances are compared: about that of a micro-batch's activations or of a
// bucket of gradients.
constexpr double kMessageBytes = 1 << 20;
// The distance of two hosts without a measured link, as a multiple of the slowest link's: farther than any
// link, but not so far that the differences between links vanish.
constexpr double kUnreached = 1000;

using Names = std::vector<std::string>;

/// The best link from one host to another.
struct BestLink {
  double seconds = std::numeric_limits<double>::infinity(), bytes_per_second = 0;
  topology::NicKind kind = topology::NicKind::kTcp;
  std::string fabric;
};

const topology::Nic* nic_of(const topology::ClusterFile& cluster, const std::string& host_name,
                            const std::string& nic_name) {
  const topology::Host* host = cluster.find_host(host_name);
  if (host == nullptr) return nullptr;
  const auto nic = std::ranges::find_if(host->nics, [&](const auto& each) { return each.name == nic_name; });
  return nic == host->nics.end() ? nullptr : &*nic;
}

/// The best links between those hosts that links mention.
class BestLinks {
 public:
  explicit BestLinks(const topology::ClusterFile& cluster) {
    for (const topology::Link& link : cluster.links) {
      if (link.from_host == link.to_host || link.bytes_per_second <= 0) continue;
      BestLink& best = links_[{link.from_host, link.to_host}];
      const double seconds = link.latency_seconds + kMessageBytes / link.bytes_per_second;
      if (seconds >= best.seconds) continue;
      const topology::Nic* nic = nic_of(cluster, link.from_host, link.from_nic);
      best = {seconds, link.bytes_per_second, nic != nullptr ? nic->kind : topology::NicKind::kTcp,
              nic != nullptr ? nic->fabric : std::string()};
      slowest_ = std::max(slowest_, seconds);
    }
    for (const topology::Host& host : cluster.hosts) {
      const bool linked = std::ranges::any_of(links_, [&](const auto& link) {
        return link.first.first == host.name || link.first.second == host.name;
      });
      if (linked) hosts_.push_back(host.name);
    }
  }

  const Names& hosts() const { return hosts_; }
  const BestLink* find(const std::string& from, const std::string& to) const {
    const auto found = links_.find({from, to});
    return found == links_.end() ? nullptr : &found->second;
  }
  double seconds(const std::string& from, const std::string& to) const {
    const BestLink* link = find(from, to);
    return link != nullptr ? link->seconds : kUnreached * slowest_;
  }
  /// The median rate from one set of hosts to another; 0 where no link joins them.
  double typical(const Names& from, const Names& to) const {
    std::vector<double> rates;
    for (const std::string& a : from)
      for (const std::string& b : to)
        if (const BestLink* link = a != b ? find(a, b) : nullptr) rates.push_back(link->bytes_per_second);
    if (rates.empty()) return 0;
    std::ranges::nth_element(rates, rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2));
    return rates[rates.size() / 2];
  }

 private:
  std::map<std::pair<std::string, std::string>, BestLink> links_;
  Names hosts_;
  double slowest_ = 0;
};

std::string rate_text(double bytes_per_second) {
  return bytes_per_second > 0 ? format_bit_rate(bytes_per_second) : std::string("nothing");
}

Names without(const Names& all, const Names& some) {
  Names rest;
  for (const std::string& one : all)
    if (std::ranges::find(some, one) == some.end()) rest.push_back(one);
  return rest;
}

/// The hosts of one cluster that are on one island.
struct IslandMembers {
  const Island* island = nullptr;
  Names hosts;
};

std::vector<IslandMembers> members_by_island(const topology::ClusterFile& cluster, const std::string& name,
                                             const std::vector<Island>& islands) {
  std::vector<IslandMembers> members;
  for (const Island& island : islands) {
    IslandMembers here{&island, {}};
    for (const std::string& host : island.hosts)
      if (cluster.find_host(host)->cluster == name) here.hosts.push_back(host);
    if (!here.hosts.empty()) members.push_back(std::move(here));
  }
  return members;
}

void compare_cluster(const BestLinks& links, const std::string& name,
                     const std::vector<IslandMembers>& members, std::vector<std::string>& findings) {
  if (members.size() == 1 && !members[0].island->close && members[0].hosts.size() > 1) {
    const Names& hosts = members[0].hosts;
    findings.push_back(fmt::format(
        "hosts {} stand in cluster {}, but reach the others about as fast ({}) as each other ({})",
        fmt::join(hosts, " "), name, rate_text(links.typical(hosts, without(links.hosts(), hosts))),
        rate_text(links.typical(hosts, hosts))));
  }
  if (members.size() < 2) return;
  std::vector<std::string> texts;
  double between = 0;
  for (const IslandMembers& here : members) {
    const double inside = links.typical(here.hosts, here.hosts);
    texts.push_back(fmt::format("{}{}", fmt::join(here.hosts, " "),
                                inside > 0 ? fmt::format(" ({} inside)", rate_text(inside)) : std::string()));
    for (const IslandMembers& other : members)
      if (&other != &here) between = std::max(between, links.typical(here.hosts, other.hosts));
  }
  findings.push_back(fmt::format("cluster {} falls into islands: {}; between them {}", name,
                                 fmt::join(texts, " | "), rate_text(between)));
}

/// Reports several clusters on one island. At least one of them must have two hosts there, because otherwise
/// there is no rate inside a cluster with which to compare the rate between clusters.
void compare_island(const topology::ClusterFile& cluster, const BestLinks& links, const Island& island,
                    std::vector<std::string>& findings) {
  if (!island.close) return;
  std::map<std::string, Names> by_cluster;
  for (const std::string& host : island.hosts) by_cluster[cluster.find_host(host)->cluster].push_back(host);
  double inside = 0, across = 0;
  std::vector<std::string> texts;
  for (const auto& [name, hosts] : by_cluster) {
    texts.push_back(fmt::format("{} of cluster {}", fmt::join(hosts, " "), name));
    inside = std::max(inside, links.typical(hosts, hosts));
    across = std::max(across, links.typical(hosts, without(island.hosts, hosts)));
  }
  if (by_cluster.size() < 2 || inside == 0) return;
  findings.push_back(fmt::format("hosts {} reach each other about as fast ({}) as inside one cluster ({})",
                                 fmt::join(texts, " and "), rate_text(across), rate_text(inside)));
}

/// Reports RDMA fabrics that do not lie within one island, or do not hold all of it.
void compare_fabrics(const topology::ClusterFile& cluster, const std::vector<Island>& islands,
                     std::vector<std::string>& findings) {
  std::map<std::pair<topology::NicKind, std::string>, std::set<std::string>> fabrics;
  for (const topology::Link& link : cluster.links) {
    const topology::Nic* nic = nic_of(cluster, link.from_host, link.from_nic);
    if (nic == nullptr || nic->kind == topology::NicKind::kTcp) continue;
    fabrics[{nic->kind, nic->fabric}].insert({link.from_host, link.to_host});
  }
  for (const auto& [fabric, hosts] : fabrics) {
    const std::string what =
        fmt::format("{} fabric '{}'", topology::nic_kind_name(fabric.first), fabric.second);
    std::vector<std::string> parts;
    for (const Island& island : islands) {
      Names on, off;
      for (const std::string& host : island.hosts) (hosts.contains(host) ? on : off).push_back(host);
      if (on.empty()) continue;
      parts.push_back(fmt::format("{}", fmt::join(on, " ")));
      if (on.size() > 1 && !off.empty() && island.close)
        findings.push_back(
            fmt::format("hosts {} are not on {}, yet reach {} about as fast as these reach each other",
                        fmt::join(off, " "), what, fmt::join(on, " ")));
    }
    if (parts.size() > 1)
      findings.push_back(
          fmt::format("{} joins hosts that are islands apart: {}", what, fmt::join(parts, " | ")));
  }
}

std::string letters(std::size_t number) {
  std::string name;
  for (++number; number > 0; number = (number - 1) / 26)
    name.insert(name.begin(), static_cast<char>('A' + (number - 1) % 26));
  return name;
}

}  // namespace

std::vector<Island> find_islands(const topology::ClusterFile& cluster) {
  const BestLinks links(cluster);
  const Names& hosts = links.hosts();
  std::vector<std::vector<double>> seconds(hosts.size(), std::vector<double>(hosts.size(), 0.0));
  for (std::size_t i = 0; i < hosts.size(); ++i)
    for (std::size_t j = 0; j < hosts.size(); ++j)
      if (i != j) seconds[i][j] = links.seconds(hosts[i], hosts[j]);
  std::vector<Island> islands;
  for (const NearGroup& group : near_groups(seconds)) {
    Island& island = islands.emplace_back();
    island.close = group.close;
    for (const std::size_t member : group.members) island.hosts.push_back(hosts[member]);
    island.bytes_per_second = links.typical(island.hosts, island.hosts);
    std::set<topology::NicKind> kinds;
    for (const std::string& from : island.hosts)
      for (const std::string& to : island.hosts)
        if (const BestLink* link = links.find(from, to)) kinds.insert(link->kind);
    island.kinds.assign(kinds.begin(), kinds.end());
  }
  return islands;
}

void name_clusters(topology::ClusterFile& cluster, const std::vector<Island>& islands) {
  std::set<std::string> taken;
  for (const topology::Host& host : cluster.hosts) taken.insert(host.cluster);
  std::size_t number = 0;
  const auto next_name = [&] {
    while (taken.contains(letters(number))) ++number;
    return letters(number++);
  };
  for (const Island& island : islands) {
    std::string name;
    for (topology::Host& host : cluster.hosts) {
      if (!host.cluster.empty() || std::ranges::find(island.hosts, host.name) == island.hosts.end()) continue;
      if (name.empty()) name = next_name();
      host.cluster = name;
    }
  }
  std::string rest;  // the cluster for hosts of which no link was measured
  for (topology::Host& host : cluster.hosts) {
    if (!host.cluster.empty()) continue;
    if (rest.empty()) rest = next_name();
    host.cluster = rest;
  }
}

std::vector<std::string> compare_islands(const topology::ClusterFile& cluster,
                                         const std::vector<Island>& islands) {
  const BestLinks links(cluster);
  std::vector<std::string> findings;
  for (const std::string& name : cluster.clusters())
    compare_cluster(links, name, members_by_island(cluster, name, islands), findings);
  for (const Island& island : islands) compare_island(cluster, links, island, findings);
  compare_fabrics(cluster, islands, findings);
  return findings;
}

}  // namespace tombolo::probe
