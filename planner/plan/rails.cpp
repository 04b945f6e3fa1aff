#include "planner/plan/rails.h"

#include <algorithm>
#include <map>
#include <set>

#include "planner/model/index.h"
#include "topology/judge/distance.h"

namespace tombolo::planner {

namespace {

/// How many NUMA nodes the host's devices and NICs are known to be on.
int numa_nodes(const topology::Host& host) {
  std::set<int> nodes;
  for (const auto& device : host.devices)
    if (device.numa_node) nodes.insert(*device.numa_node);
  for (const auto& nic : host.nics)
    if (nic.numa_node) nodes.insert(*nic.numa_node);
  return std::max(1, static_cast<int>(nodes.size()));
}

topology::Distance far_apart(const topology::Device& device, const topology::Nic& nic, int nodes) {
  if (const auto known =
          topology::distance({device.pci_path, device.numa_node}, {nic.pci_path, nic.numa_node}, nodes))
    return *known;
  // Without places on the bus, what is not on the device's NUMA node counts as far.
  return device.numa_node && device.numa_node == nic.numa_node ? topology::Distance::kNode
                                                               : topology::Distance::kSys;
}

std::vector<int> nearest(const topology::Host& host, const topology::Device& device,
                         const std::vector<int>& nics, int nodes) {
  std::vector<int> best;
  topology::Distance least = topology::Distance::kSys;
  for (const int nic : nics) {
    const topology::Distance distance = far_apart(device, host.nics[at(nic)], nodes);
    if (!best.empty() && distance > least) continue;
    if (distance < least) best.clear();
    least = distance;
    best.push_back(nic);
  }
  return best;
}

}  // namespace

std::vector<std::vector<int>> nics_of_devices(const topology::Host& host, const std::vector<int>& nics) {
  if (nics.size() < 2) return std::vector(host.devices.size(), nics);
  const int nodes = numa_nodes(host);
  std::vector<std::vector<int>> taken;
  for (const auto& device : host.devices) taken.push_back(nearest(host, device, nics, nodes));
  std::map<std::vector<int>, std::size_t> equal, before;
  for (const auto& own : taken) ++equal[own];
  for (auto& own : taken) {
    const std::size_t devices = equal[own], earlier = before[own]++;
    const std::size_t begin = earlier * own.size() / devices;
    const std::size_t end = std::max(begin + 1, (earlier + 1) * own.size() / devices);
    own = {own.begin() + static_cast<std::ptrdiff_t>(begin), own.begin() + static_cast<std::ptrdiff_t>(end)};
  }
  return taken;
}

}  // namespace tombolo::planner
