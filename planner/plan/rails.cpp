#include "planner/plan/rails.h"

#include <algorithm>
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

std::vector<int> nics_of_device(const topology::Host& host, int device, const std::vector<int>& nics) {
  if (nics.size() < 2) return nics;
  const int nodes = numa_nodes(host);
  const std::vector<int> own = nearest(host, host.devices[at(device)], nics, nodes);
  std::size_t before = 0, equal = 0;
  for (int other = 0; at(other) < host.devices.size(); ++other) {
    if (other != device && nearest(host, host.devices[at(other)], nics, nodes) != own) continue;
    ++equal;
    if (other < device) ++before;
  }
  const std::size_t begin = before * own.size() / equal;
  const std::size_t end = std::max(begin + 1, (before + 1) * own.size() / equal);
  return {own.begin() + static_cast<std::ptrdiff_t>(begin), own.begin() + static_cast<std::ptrdiff_t>(end)};
}

}  // namespace tombolo::planner
