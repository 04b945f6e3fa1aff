#include "topology/files/link_table.h"

#include <algorithm>

namespace tombolo::topology {
namespace {

// How many bits of a 64-bit key number a cluster. A cluster file of the largest size that is read cannot hold
// more clusters.
constexpr std::uint64_t kClusterBits = 22;
constexpr std::uint32_t kAnyCluster = (1U << kClusterBits) - 1;

std::uint64_t pair_key(std::size_t from, std::size_t to) {
  return (static_cast<std::uint64_t>(from) << 32) | static_cast<std::uint64_t>(to);
}

std::uint64_t default_key(std::uint32_t fabric, std::uint32_t from_cluster, std::uint32_t to_cluster) {
  return (static_cast<std::uint64_t>(fabric) << (2 * kClusterBits)) |
         (static_cast<std::uint64_t>(from_cluster) << kClusterBits) | to_cluster;
}

double capped(double bytes_per_second, const Nic& nic) {
  if (nic.rate_bits_per_second == 0) return bytes_per_second;
  return std::min(bytes_per_second, static_cast<double>(nic.rate_bits_per_second) / 8);
}

}  // namespace

/// Numbers for names, in order of first appearance.
class LinkTable::Numbers {
 public:
  std::uint32_t of(std::string_view name) {
    return numbers_.try_emplace(name, static_cast<std::uint32_t>(numbers_.size())).first->second;
  }

 private:
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
};

LinkTable::LinkTable(const ClusterFile& cluster) : cluster_(cluster) {
  Numbers fabrics, clusters;
  for (std::size_t h = 0; h < cluster.hosts.size(); ++h) {
    const Host& host = cluster.hosts[h];
    hosts_[host.name] = static_cast<int>(h);
    first_nic_.push_back(fabric_.size());
    for (const Nic& each : host.nics) {
      fabric_.push_back(fabrics.of(each.fabric));
      cluster_of_.push_back(clusters.of(host.cluster));
    }
  }
  egress_.assign(fabric_.size(), 0);
  ingress_.assign(fabric_.size(), 0);
  add_links();
  add_fabrics(fabrics, clusters);
}

void LinkTable::add_links() {
  for (const Link& link : cluster_.links) {
    const auto from_host = host_index(link.from_host), to_host = host_index(link.to_host);
    const auto from_nic = from_host ? nic_index(*from_host, link.from_nic) : std::nullopt;
    const auto to_nic = to_host ? nic_index(*to_host, link.to_nic) : std::nullopt;
    if (!from_nic || !to_nic) continue;  // a ClusterFile that was made in memory is not checked
    const std::size_t from = flat(*from_host, *from_nic), to = flat(*to_host, *to_nic);
    links_[pair_key(from, to)] = &link;
    if (from_host == to_host) continue;
    egress_[from] = std::max(egress_[from], link.bytes_per_second);
    ingress_[to] = std::max(ingress_[to], link.bytes_per_second);
  }
}

void LinkTable::add_fabrics(Numbers& fabrics, Numbers& clusters) {
  std::unordered_map<std::uint64_t, double> out, in;  // the best of a fabric's defaults, by cluster
  for (const FabricDefault& each : cluster_.fabrics) {
    const std::uint32_t fabric = fabrics.of(each.fabric);
    const bool any = each.from_cluster.empty();
    const std::uint32_t from = any ? kAnyCluster : clusters.of(each.from_cluster);
    const std::uint32_t to = any ? kAnyCluster : clusters.of(each.to_cluster);
    defaults_[default_key(fabric, from, to)] = &each;
    double& best_out = out[default_key(fabric, from, 0)];
    double& best_in = in[default_key(fabric, to, 0)];
    best_out = std::max(best_out, each.bytes_per_second);
    best_in = std::max(best_in, each.bytes_per_second);
  }
  for (std::size_t h = 0; h < cluster_.hosts.size(); ++h) {
    for (std::size_t n = 0; n < cluster_.hosts[h].nics.size(); ++n) {
      const std::size_t at = first_nic_[h] + n;
      for (const std::uint32_t cluster : {cluster_of_[at], kAnyCluster}) {
        const std::uint64_t key = default_key(fabric_[at], cluster, 0);
        const auto raise = [&](double& speed, const auto& best) {
          if (const auto found = best.find(key); found != best.end())
            speed = std::max(speed, capped(found->second, cluster_.hosts[h].nics[n]));
        };
        raise(egress_[at], out);
        raise(ingress_[at], in);
      }
    }
  }
}

std::optional<Attained> LinkTable::find(int from_host, int from_nic, int to_host, int to_nic) const {
  const std::size_t from = flat(from_host, from_nic), to = flat(to_host, to_nic);
  if (const auto link = links_.find(pair_key(from, to)); link != links_.end()) {
    const Link& found = *link->second;
    return Attained{found.bytes_per_second, found.latency_seconds, found.measured};
  }
  const Nic &source = nic(from_host, from_nic), &target = nic(to_host, to_nic);
  if (from_host == to_host || fabric_[from] != fabric_[to] || source.kind != target.kind) return std::nullopt;
  auto found = defaults_.find(default_key(fabric_[from], cluster_of_[from], cluster_of_[to]));
  if (found == defaults_.end()) found = defaults_.find(default_key(fabric_[from], kAnyCluster, kAnyCluster));
  if (found == defaults_.end()) return std::nullopt;
  const FabricDefault& usual = *found->second;
  return Attained{capped(capped(usual.bytes_per_second, source), target), usual.latency_seconds, false};
}

std::optional<Attained> LinkTable::find(std::string_view from_host, std::string_view from_nic,
                                        std::string_view to_host, std::string_view to_nic) const {
  const auto from = host_index(from_host), to = host_index(to_host);
  if (!from || !to) return std::nullopt;
  const auto out = nic_index(*from, from_nic), in = nic_index(*to, to_nic);
  if (!out || !in) return std::nullopt;
  return find(*from, *out, *to, *in);
}

std::optional<int> LinkTable::host_index(std::string_view name) const {
  const auto found = hosts_.find(name);
  if (found == hosts_.end()) return std::nullopt;
  return found->second;
}

std::optional<int> LinkTable::nic_index(int host, std::string_view name) const {
  // A host has only a handful of NICs, so a linear search is enough.
  const auto& nics = cluster_.hosts[static_cast<std::size_t>(host)].nics;
  for (std::size_t n = 0; n < nics.size(); ++n)
    if (nics[n].name == name) return static_cast<int>(n);
  return std::nullopt;
}

}  // namespace tombolo::topology
