#include <algorithm>
#include <span>

#include "base/error.h"
#include "probe/gather.h"
#include "probe/probe.h"

namespace tombolo::probe {

namespace {

using DeviceFigure = double topology::Device::*;

/// What GPUs of that name attain in the mean, of a host or, where it has none that is known, of all hosts; 0
/// where none is known.
double figure_of_like_gpus(const topology::ClusterFile& cluster, const topology::Host& host,
                           const std::string& name, DeviceFigure figure) {
  const auto mean_of = [&](const auto& hosts) {
    double sum = 0;
    int known = 0;
    for (const topology::Host& each : hosts)
      for (const topology::Device& device : each.devices)
        if (device.kind == topology::DeviceKind::kGpu && device.name == name && device.*figure > 0) {
          sum += device.*figure;
          ++known;
        }
    return known > 0 ? sum / known : 0;
  };
  const double here = mean_of(std::span(&host, 1));
  return here > 0 ? here : mean_of(cluster.hosts);
}

/// Gives GPUs of which nothing is known, since no rank ran on them, what those of their name attain. A core
/// gets nothing: how fast it is depends on how many compute beside it.
void fill_in_gpus(topology::ClusterFile& cluster) {
  const topology::ClusterFile known = cluster;
  for (std::size_t host = 0; host < cluster.hosts.size(); ++host)
    for (topology::Device& device : cluster.hosts[host].devices) {
      if (device.kind != topology::DeviceKind::kGpu || device.name.empty()) continue;
      for (const DeviceFigure figure :
           {&topology::Device::flops_per_second, &topology::Device::memory_bytes_per_second})
        if (device.*figure <= 0)
          device.*figure = figure_of_like_gpus(known, known.hosts[host], device.name, figure);
    }
}

}  // namespace

topology::ClusterFile describe(collectives::Communicator& communicator, const topology::Host& mine,
                               const std::optional<topology::ClusterFile>& known, const ProbedLinks& measured,
                               const ComputeResult& compute) {
  std::vector<HostRanks> hosts = gather_hosts(communicator, mine);
  // This rank's FLOP/s and bytes/s, measured alone and together with the others.
  const double mine_attained[4] = {compute.alone.flops_per_second, compute.alone.memory_bytes_per_second,
                                   compute.together.flops_per_second,
                                   compute.together.memory_bytes_per_second};
  std::vector<double> attained(4 * static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(mine_attained, attained.data(), 4, collectives::DataType::kFloat64);

  topology::ClusterFile cluster;
  if (known) {
    cluster = *known;
  } else {
    for (const HostRanks& each : hosts) cluster.hosts.push_back(each.host);
  }
  for (const HostRanks& each : hosts) {
    auto host =
        std::find_if(cluster.hosts.begin(), cluster.hosts.end(),
                     [&](const topology::Host& candidate) { return candidate.name == each.host.name; });
    if (host == cluster.hosts.end()) {
      fail(Cause::kInvalidUsage, "rank {} is on host '{}', which the cluster file does not name", each.leader,
           each.host.name);
    }
    const bool shared =
        cluster.shared_processor && std::ranges::find(cluster.shared_processor->hosts, each.host.name) !=
                                        cluster.shared_processor->hosts.end();
    for (std::size_t local = 0; local < each.ranks.size(); ++local) {
      if (local == host->devices.size()) {  // detection names GPUs only: this rank measured a core
        topology::Device device;
        device.name = "cpu";
        host->devices.push_back(device);
      }
      topology::Device& device = host->devices[local];
      const std::size_t at = 4 * static_cast<std::size_t>(each.ranks[local]) + (shared ? 0 : 2);
      // For a value that was not measured the file's value stays.
      if (attained[at] > 0) device.flops_per_second = attained[at];
      if (attained[at + 1] > 0) device.memory_bytes_per_second = attained[at + 1];
    }
  }
  fill_in_gpus(cluster);
  cluster.links = measured.links;
  cluster.shared_links = measured.shared;
  name_clusters(cluster, measured.islands);
  return cluster;
}

}  // namespace tombolo::probe
