#include "planner/explain/disturbance.h"

#include <fmt/format.h>

#include <functional>
#include <map>
#include <set>

namespace tombolo::planner {

namespace {

/// Whether links from hosts of the one cluster to hosts of the other are meant.
using IsMeant = std::function<bool(std::string_view from, std::string_view to)>;

void scale_links(topology::ClusterFile& cluster, const IsMeant& is_meant, double factor) {
  std::map<std::string_view, std::string_view> cluster_of;
  for (const topology::Host& host : cluster.hosts) cluster_of[host.name] = host.cluster;
  for (topology::Link& link : cluster.links)
    if (link.from_host != link.to_host && is_meant(cluster_of[link.from_host], cluster_of[link.to_host]))
      link.bytes_per_second *= factor;
  for (topology::SharedLink& link : cluster.shared_links)
    if (!link.from.empty() && !link.to.empty() &&
        is_meant(cluster_of[link.from.front().host], cluster_of[link.to.front().host]))
      link.bytes_per_second *= factor;
  // A default without clusters gets entries for those that are meant, which take precedence.
  std::set<std::tuple<std::string, std::string, std::string>> said;
  for (const topology::FabricDefault& fabric : cluster.fabrics)
    said.insert({fabric.fabric, fabric.from_cluster, fabric.to_cluster});
  std::vector<topology::FabricDefault> more;
  for (topology::FabricDefault& fabric : cluster.fabrics) {
    if (!fabric.from_cluster.empty()) {
      if (is_meant(fabric.from_cluster, fabric.to_cluster)) fabric.bytes_per_second *= factor;
      continue;
    }
    for (const std::string& from : cluster.clusters())
      for (const std::string& to : cluster.clusters()) {
        if (!is_meant(from, to) || said.contains({fabric.fabric, from, to})) continue;
        more.push_back(fabric);
        more.back().from_cluster = from;
        more.back().to_cluster = to;
        more.back().bytes_per_second *= factor;
      }
  }
  cluster.fabrics.insert(cluster.fabrics.end(), more.begin(), more.end());
}

}  // namespace

std::vector<Disturbance> disturbances(const ClusterView& view, const std::vector<int>& hosts, double share) {
  constexpr std::size_t kFewClusters = 3;
  std::vector<Disturbance> all;
  const auto add = [&](const std::string& what,
                       const std::function<void(topology::ClusterFile&, double)>& scale) {
    for (const double factor : {1 - share, 1 + share}) {
      Disturbance& one = all.emplace_back();
      one.text = fmt::format("{} {:.0f} % {}", what, 100 * share, factor < 1 ? "slower" : "faster");
      one.cluster = view.cluster();
      scale(one.cluster, factor);
    }
  };
  std::set<std::string> devices;
  std::map<std::string, int> clusters;  // with the number of their hosts
  for (const int index : hosts) {
    const topology::Host& host = view.host(index);
    ++clusters[host.cluster];
    for (const topology::Device& device : host.devices) devices.insert(device.name);
  }
  for (const std::string& name : devices)
    add(name, [&](topology::ClusterFile& cluster, double factor) {
      for (topology::Host& host : cluster.hosts)
        for (topology::Device& device : host.devices)
          if (device.name == name) device.flops_per_second *= factor;
    });
  const auto links = [&](const std::string& what, const IsMeant& is_meant) {
    add("links " + what,
        [&](topology::ClusterFile& cluster, double factor) { scale_links(cluster, is_meant, factor); });
  };
  if (clusters.size() > kFewClusters) {
    links("inside clusters", [](std::string_view from, std::string_view to) { return from == to; });
    links("between clusters", [](std::string_view from, std::string_view to) { return from != to; });
    return all;
  }
  for (auto one = clusters.begin(); one != clusters.end(); ++one) {
    const std::string& name = one->first;
    if (one->second > 1)
      links("inside " + name,
            [&](std::string_view from, std::string_view to) { return from == name && to == name; });
    for (auto other = std::next(one); other != clusters.end(); ++other)
      links(fmt::format("between {} and {}", name, other->first),
            [&](std::string_view from, std::string_view to) {
              return (from == name && to == other->first) || (from == other->first && to == name);
            });
  }
  return all;
}

}  // namespace tombolo::planner
