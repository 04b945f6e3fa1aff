#include "topology/export/pci_forest.h"

#include <charconv>

namespace tombolo::topology {
namespace {

using FunctionsByPath = std::map<std::string, const PciFunction*>;

/// The number in "16.0 GT/s PCIe".
double transfers_of(const std::string& text) {
  double speed = 0;
  std::from_chars(text.data(), text.data() + text.size(), speed);
  return speed;
}

/// Finds the node of a device, or makes it; null where the device has no PCI function here.
PciNode* node_of(PciForest& forest, const FunctionsByPath& functions, const std::string& path) {
  std::vector<const PciFunction*> steps;  // from the device upward
  for (auto found = functions.find(path); found != functions.end();
       found = functions.find(found->first.substr(0, found->first.rfind('/')))) {
    steps.push_back(found->second);
  }
  if (steps.empty()) return nullptr;
  const std::size_t top = (steps.size() - 1) / 2 * 2;
  auto* level = &forest.roots[steps[top]->numa_node.value_or(-1)];
  PciNode* here = nullptr;
  for (std::size_t i = top + 2; i >= 2; i -= 2) {
    const PciFunction* facts = steps[i - 2];
    here = &(*level)[facts->address];
    here->facts = facts;
    here->port_above = i - 1 < steps.size() ? steps[i - 1] : nullptr;
    level = &here->below;
  }
  return here;
}

}  // namespace

PciForest pci_forest(const Machine& machine, const std::function<bool(const Nic&)>& takes) {
  FunctionsByPath functions;
  for (const PciFunction& function : machine.pci) functions[function.path] = &function;
  PciForest forest;
  for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
    PciNode* node = node_of(forest, functions, machine.gpus[i].pci_path);
    (node != nullptr ? node->gpus : forest.gpus).push_back(i);
  }
  for (std::size_t i = 0; i < machine.nics.size(); ++i) {
    if (!takes(machine.nics[i])) continue;
    PciNode* node = node_of(forest, functions, machine.nics[i].pci_path);
    (node != nullptr ? node->nics : forest.nics).push_back(i);
  }
  for (const NumaNode& numa : machine.nodes) forest.roots[numa.id];
  if (forest.roots.empty()) forest.roots[0];
  return forest;
}

PciLink pci_link(const PciNode& node) {
  PciLink link{node.facts->max_link_speed, node.facts->max_link_width};
  const PciFunction* port = node.port_above;
  if (port == nullptr) return link;
  const double limit = transfers_of(port->max_link_speed);
  if (limit > 0 && (link.speed.empty() || limit < transfers_of(link.speed)))
    link.speed = port->max_link_speed;
  if (port->max_link_width > 0 && (link.width == 0 || port->max_link_width < link.width))
    link.width = port->max_link_width;
  return link;
}

}  // namespace tombolo::topology
