#include "topology/judge/distance.h"

#include <algorithm>

#include "base/format.h"
#include "topology/system/pci.h"

namespace tombolo::topology {
namespace {

/// Whether the NIC is hardware, and so has a row in the matrix.
bool is_hardware(const Nic& nic) {
  return !nic.pci_path.empty() && nic.role != NicRole::kVlan && nic.role != NicRole::kContainerBridge;
}

}  // namespace

std::string_view distance_name(Distance distance) noexcept {
  switch (distance) {
    case Distance::kSelf:
      return "X";
    case Distance::kPix:
      return "PIX";
    case Distance::kPxb:
      return "PXB";
    case Distance::kPhb:
      return "PHB";
    case Distance::kNode:
      return "NODE";
    case Distance::kSys:
      return "SYS";
  }
  return "-";
}

std::optional<Distance> distance(const DeviceLocation& a, const DeviceLocation& b, int numa_nodes) {
  const auto left = pci_steps(a.pci_path), right = pci_steps(b.pci_path);
  if (left.empty() || right.empty()) return std::nullopt;
  const std::string bridge = host_bridge(a.pci_path);
  if (bridge.empty() || bridge != host_bridge(b.pci_path)) {
    const bool known = a.numa_node && b.numa_node;
    const bool one_node = known ? *a.numa_node == *b.numa_node : numa_nodes <= 1;
    return one_node ? Distance::kNode : Distance::kSys;
  }
  // The devices themselves are not bridges: two functions of one NIC share all bridges above them.
  const auto least = std::min(left.size(), right.size()) - 1;
  std::size_t shared = 0;
  while (shared < least && left[shared] == right[shared]) ++shared;
  if (shared == 0) {
    // Both are attached to the host bridge itself: as functions of one slot (a guest's, or built in), or of
    // different ones.
    const bool one_slot = left[0].substr(0, left[0].rfind('.')) == right[0].substr(0, right[0].rfind('.'));
    return one_slot && left.size() == 1 && right.size() == 1 ? Distance::kPix : Distance::kPhb;
  }
  // A switch adds one bridge upward and one downward per device. So where there is only one switch, each side
  // has at most the latter below the shared bridge.
  const auto below_left = left.size() - 1 - shared, below_right = right.size() - 1 - shared;
  return below_left <= 1 && below_right <= 1 ? Distance::kPix : Distance::kPxb;
}

int nvlinks_between(const Gpu& a, const Gpu& b) {
  auto address = [](const Gpu& gpu) { return gpu.pci_path.substr(gpu.pci_path.rfind('/') + 1); };
  auto count = [](const Gpu& gpu, auto fits) {
    int links = 0;
    for (const NvLinks& group : gpu.nvlinks) links += fits(group) ? group.count : 0;
    return links;
  };
  const std::string there = address(b);
  const int direct =
      there.empty() ? 0
                    : count(a, [&](const NvLinks& group) { return !group.to_switch && group.peer == there; });
  auto to_switch = [](const NvLinks& group) { return group.to_switch; };
  return direct + std::min(count(a, to_switch), count(b, to_switch));
}

DistanceMatrix distance_matrix(const Machine& machine) {
  DistanceMatrix matrix;
  for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
    const Gpu& gpu = machine.gpus[i];
    matrix.devices.push_back({fmt::format("GPU{}", i), {gpu.pci_path, gpu.numa_node}, i, std::nullopt});
  }
  for (std::size_t i = 0; i < machine.nics.size(); ++i) {
    const Nic& nic = machine.nics[i];
    if (is_hardware(nic))
      matrix.devices.push_back({nic.name, {nic.pci_path, nic.numa_node}, std::nullopt, i});
  }
  for (const auto& row : matrix.devices) {
    auto& cells = matrix.cells.emplace_back();
    for (const auto& column : matrix.devices) {
      if (&row == &column) {
        cells.emplace_back(distance_name(Distance::kSelf));
        continue;
      }
      if (row.gpu && column.gpu) {
        if (const int links = nvlinks_between(machine.gpus[*row.gpu], machine.gpus[*column.gpu]); links > 0) {
          cells.push_back(fmt::format("NV{}", links));
          continue;
        }
      }
      // Two ports of one PCI function are different devices, but nothing lies between them.
      auto found = distance(row.location, column.location, machine.numa_nodes);
      cells.emplace_back(found ? distance_name(*found) : "-");
    }
  }
  return matrix;
}

}  // namespace tombolo::topology
