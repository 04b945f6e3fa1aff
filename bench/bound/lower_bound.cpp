#include "bench/bound/lower_bound.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/units.h"

namespace tombolo::bench {
namespace {

using collectives::Collective;

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

/// Bytes that must leave a group, and come to it, whatever happens elsewhere.
struct Crossing {
  double out = 0, in = 0;
};

Crossing crossing_of(Collective collective, double bytes, double ranks, double all, bool has_root) {
  const double own = bytes * ranks / all, others = bytes - own;
  switch (collective) {
    case Collective::kAllReduce:
      return {bytes, bytes};
    case Collective::kReduceScatter:
      return {others, own};
    case Collective::kAllGather:
      return {own, others};
    case Collective::kBroadcast:
      return has_root ? Crossing{bytes, 0} : Crossing{0, bytes};
    case Collective::kReduce:
      return has_root ? Crossing{0, bytes} : Crossing{bytes, 0};
    case Collective::kGather:
      return has_root ? Crossing{0, others} : Crossing{own, 0};
    case Collective::kScatter:
      return has_root ? Crossing{others, 0} : Crossing{0, own};
    case Collective::kAllToAll:
      return {bytes * ranks * (all - ranks) / all, bytes * ranks * (all - ranks) / all};
    case Collective::kBarrier:
      break;
  }
  return {};
}

/// How often each byte of a vector at least goes from one of so many groups to another, all of them together;
/// 0: what goes through each says as much.
double transfers_of(Collective collective, double groups) {
  switch (collective) {
    case Collective::kAllReduce:
      return 2 * (groups - 1);
    case Collective::kReduceScatter:
    case Collective::kAllGather:
    case Collective::kBroadcast:
    case Collective::kReduce:
      return groups - 1;
    default:
      return 0;
  }
}

std::string amount(double bytes) {
  return format_size(static_cast<std::uint64_t>(bytes));
}

/// A NIC of a host that takes part.
struct Port {
  const topology::Host* host;
  const topology::Nic* nic;
};

/// What the file says of the ways from some hosts to others.
class Network {
 public:
  explicit Network(const topology::ClusterFile& cluster) : cluster_(cluster) {}

  using Hosts = std::set<std::string>;

  /// The most bytes per second: the cheapest choice of NICs and shared links without which nothing passes.
  double most(const Hosts& from, const Hosts& to) const {
    std::vector<std::pair<Port, Port>> ways;
    for (const Port& one : ports(from))
      for (const Port& other : ports(to))
        if (one.nic->fabric == other.nic->fabric) ways.emplace_back(one, other);
    std::vector<const topology::SharedLink*> shared;
    for (const topology::SharedLink& link : cluster_.shared_links) {
      const bool carries_one =
          std::ranges::any_of(ways, [&](const auto& way) { return carries(link, way.first, way.second); });
      if (carries_one && shared.size() < kMostShared) shared.push_back(&link);
    }
    double least = kUnlimited;
    for (std::uint32_t chosen = 0; chosen < 1U << shared.size(); ++chosen) {
      double rate = 0;
      for (std::size_t i = 0; i < shared.size(); ++i)
        if ((chosen >> i & 1U) != 0) rate += shared[i]->bytes_per_second;
      std::map<const topology::Nic*, double> out, in;  // of the ways that no chosen link carries
      for (const auto& [one, other] : ways) {
        bool carried = false;
        for (std::size_t i = 0; i < shared.size() && !carried; ++i)
          carried = (chosen >> i & 1U) != 0 && carries(*shared[i], one, other);
        if (carried) continue;
        out[one.nic] = rate_of(*one.nic);
        in[other.nic] = rate_of(*other.nic);
      }
      least = std::min(least, rate + std::min(sum(out), sum(in)));
    }
    return least;
  }

  /// The least latency of any way, one way.
  double latency(const Hosts& from, const Hosts& to) const {
    double least = kUnlimited;
    for (const Port& one : ports(from))
      for (const Port& other : ports(to))
        if (one.nic->fabric == other.nic->fabric) least = std::min(least, latency(one, other));
    return least == kUnlimited ? 0 : least;
  }

 private:
  static constexpr std::size_t kMostShared = 12;  // of which every choice is tried

  std::vector<Port> ports(const Hosts& hosts) const {
    std::vector<Port> all;
    for (const topology::Host& host : cluster_.hosts) {
      if (!hosts.contains(host.name)) continue;
      for (const topology::Nic& nic : host.nics) all.push_back({&host, &nic});
    }
    return all;
  }
  static bool carries(const topology::SharedLink& link, const Port& from, const Port& to) {
    return link.carries(from.host->name, from.nic->name, to.host->name, to.nic->name);
  }
  static double rate_of(const topology::Nic& nic) {
    return nic.rate_bits_per_second == 0 ? kUnlimited : static_cast<double>(nic.rate_bits_per_second) / 8;
  }
  static double sum(const std::map<const topology::Nic*, double>& rates) {
    double all = 0;
    for (const auto& [nic, rate] : rates) all += rate;
    return all;
  }
  double latency(const Port& from, const Port& to) const {
    for (const topology::Link& link : cluster_.links)
      if (link.from_host == from.host->name && link.from_nic == from.nic->name &&
          link.to_host == to.host->name && link.to_nic == to.nic->name)
        return link.latency_seconds;
    const topology::FabricDefault* found = nullptr;
    for (const topology::FabricDefault& fabric : cluster_.fabrics) {
      if (fabric.fabric != from.nic->fabric) continue;
      const bool of_clusters =
          fabric.from_cluster == from.host->cluster && fabric.to_cluster == to.host->cluster;
      if (of_clusters) return fabric.latency_seconds;
      if (fabric.from_cluster.empty()) found = &fabric;
    }
    return found == nullptr ? 0 : found->latency_seconds;
  }

  const topology::ClusterFile& cluster_;
};

/// Hosts of the ranks, by what they have in common.
using Parts = std::map<std::string, Network::Hosts>;

Bound bound_of_parts(const Network& network, const Parts& parts, const std::vector<std::string>& hosts,
                     Collective collective, double bytes, int root) {
  std::vector<Group> groups;
  for (const auto& [name, own] : parts) {
    Network::Hosts others;
    Group group{name, 0, 0, 0, 0, false};
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      if (!own.contains(hosts[rank])) {
        others.insert(hosts[rank]);
        continue;
      }
      ++group.ranks;
      group.has_root |= static_cast<int>(rank) == root;
    }
    group.out = network.most(own, others);
    group.in = network.most(others, own);
    group.latency_seconds = std::min(network.latency(own, others), network.latency(others, own));
    groups.push_back(std::move(group));
  }
  return bound_of(collective, bytes, groups);
}

}  // namespace

Bound bound_of(Collective collective, double bytes, const std::vector<Group>& groups) {
  double all = 0, out = 0, in = 0, latency = kUnlimited;
  for (const Group& group : groups) {
    all += group.ranks;
    out += group.out;
    in += group.in;
    latency = std::min(latency, group.latency_seconds);
  }
  Bound bound;
  const auto at_least = [&bound](double moved, double rate, double wait, const std::string& what) {
    const double seconds = wait + moved / rate;
    if (seconds <= bound.seconds) return;
    bound = {seconds, fmt::format("{} {}, {}", amount(moved), what, format_bit_rate(rate))};
  };
  for (const Group& group : groups) {
    const Crossing crossing = crossing_of(collective, bytes, group.ranks, all, group.has_root);
    at_least(crossing.out, group.out, group.latency_seconds, "out of " + group.name);
    at_least(crossing.in, group.in, group.latency_seconds, "into " + group.name);
  }
  const double moved = transfers_of(collective, static_cast<double>(groups.size())) * bytes;
  at_least(moved, std::min(out, in), latency, fmt::format("among {} groups together", groups.size()));
  return bound;
}

Bound lower_bound(const topology::ClusterFile& cluster, const std::vector<std::string>& hosts,
                  Collective collective, double bytes, int root) {
  const Network network(cluster);
  Parts by_host, by_cluster;
  for (const std::string& name : hosts) {
    const topology::Host* const host = cluster.find_host(name);
    if (host == nullptr)
      fail(Cause::kInvalidUsage, "{}: there is no host '{}', on which a rank runs", cluster.source, name);
    by_host["host " + name].insert(name);
    by_cluster[host->cluster].insert(name);
  }
  std::vector<Parts> divisions{by_host, by_cluster};
  // Some clusters and all others; those of one cluster are in by_cluster.
  constexpr std::size_t kMostClusters = 10;
  if (by_cluster.size() > 3 && by_cluster.size() <= kMostClusters) {
    for (std::uint32_t chosen = 1; chosen < 1U << (by_cluster.size() - 1); ++chosen) {
      Parts two;
      std::string inside, outside;
      std::size_t at = 0;
      for (const auto& [name, own] : by_cluster) {
        std::string& names = (chosen >> at++ & 1U) != 0 ? inside : outside;
        names += (names.empty() ? "" : "+") + name;
      }
      at = 0;
      for (const auto& [name, own] : by_cluster)
        two[(chosen >> at++ & 1U) != 0 ? inside : outside].insert(own.begin(), own.end());
      divisions.push_back(std::move(two));
    }
  }
  Bound greatest;
  for (const Parts& parts : divisions) {
    if (parts.size() < 2) continue;
    Bound bound = bound_of_parts(network, parts, hosts, collective, bytes, root);
    if (bound.seconds > greatest.seconds) greatest = std::move(bound);
  }
  return greatest;
}

}  // namespace tombolo::bench
