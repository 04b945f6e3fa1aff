#include <algorithm>

#include "base/error.h"
#include "probe/gather.h"
#include "probe/probe.h"

namespace tombolo::probe {

topology::ClusterFile describe(collectives::Communicator& communicator, const topology::Host& mine,
                               const std::optional<topology::ClusterFile>& known,
                               std::vector<topology::Link> links, const ComputeResult& compute) {
  std::vector<LedHost> led = gather_hosts(communicator, mine);
  std::vector<double> alone(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(&compute.alone_flops_per_second, alone.data(), 1, collectives::DataType::kFloat64);

  topology::ClusterFile cluster;
  if (known) {
    cluster = *known;
  } else {
    for (const LedHost& each : led) cluster.hosts.push_back(each.host);
  }
  for (const LedHost& each : led) {
    auto host =
        std::find_if(cluster.hosts.begin(), cluster.hosts.end(),
                     [&](const topology::Host& candidate) { return candidate.name == each.host.name; });
    if (host == cluster.hosts.end()) {
      fail(Cause::kInvalidUsage, "rank {} is on host '{}', which the cluster file does not name", each.leader,
           each.host.name);
    }
    for (std::size_t local = 0; local < each.ranks.size(); ++local) {
      if (local == host->devices.size()) {  // detection names GPUs only; what ran here is a core
        topology::Device device;
        device.name = "cpu";
        host->devices.push_back(device);
      }
      topology::Device& device = host->devices[local];
      if (device.kind == topology::DeviceKind::kCpu) {
        device.flops_per_second = alone[static_cast<std::size_t>(each.ranks[local])];
      }
    }
  }
  cluster.links = std::move(links);
  return cluster;
}

}  // namespace tombolo::probe
