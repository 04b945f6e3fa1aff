#include "topology/export/nccl_xml.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/format.h"
#include "topology/export/pci_forest.h"

namespace tombolo::topology {
namespace {

// a bridge of the kind "other", which is how NVSwitches show up
constexpr std::string_view kSwitchClass = "0x068000";
constexpr std::string_view kUnseenPeer =
    "fffffff:ffff:ff";                      // what NCCL writes for a switch that a guest does not see
constexpr std::size_t kLongestValue = 254;  // the longest attribute value that NCCL's reader takes

/// Removes what NCCL's reader cannot take: it knows no escapes, and stops at quotes and angle brackets.
std::string plain(std::string text) {
  for (char& c : text) {
    const bool safe = c >= ' ' && c < 0x7f && c != '"' && c != '\'' && c != '<' && c != '>' && c != '&';
    if (!safe) c = '_';
  }
  return text.substr(0, kLongestValue);
}

/// An XML element that is being built.
struct Element {
  std::string name;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::vector<Element> inner;

  void set(std::string key, const std::string& value) {
    attributes.emplace_back(std::move(key), plain(value));
  }
  void set_known(std::string key, const std::string& value) {
    if (!value.empty()) set(std::move(key), value);
  }
  void write(std::string& out, std::size_t depth) const {
    // NCCL's reader requires exactly one blank before an attribute, and none before the end.
    out.append(2 * depth, ' ').append("<").append(name);
    for (const auto& [key, value] : attributes) out += fmt::format(" {}=\"{}\"", key, value);
    if (inner.empty()) {
      out += "/>\n";
      return;
    }
    out += ">\n";
    for (const Element& element : inner) element.write(out, depth + 1);
    out.append(2 * depth, ' ').append("</").append(name).append(">\n");
  }
};

std::string class_of(const Machine& machine, const std::string& address) {
  for (const PciFunction& function : machine.pci) {
    if (function.address == address) return function.device_class;
  }
  return {};
}

Element gpu_element(const Machine& machine, std::size_t index) {
  const Gpu& gpu = machine.gpus[index];
  Element element{"gpu", {}, {}};
  element.set("dev", std::to_string(index));
  if (gpu.compute_capability > 0) element.set("sm", std::to_string(gpu.compute_capability));
  for (const NvLinks& group : gpu.nvlinks) {
    Element link{"nvlink", {}, {}};
    link.set("target", group.peer.empty() ? std::string(kUnseenPeer) : group.peer);
    link.set("count", std::to_string(group.count));
    std::string type = group.to_switch ? std::string(kSwitchClass) : class_of(machine, group.peer);
    link.set("tclass", type.empty() ? "0x030200" : type);
    element.inner.push_back(std::move(link));
  }
  return element;
}

/// The element of one PCI function: all NICs of a function are ports of one "nic".
Element nic_element(const Machine& machine, const std::vector<std::size_t>& nics) {
  Element element{"nic", {}, {}};
  for (std::size_t index : nics) {
    const Nic& nic = machine.nics[index];
    Element net{"net", {}, {}};
    net.set("name", is_rdma(nic.kind) && !nic.rdma_device.empty() ? nic.rdma_device : nic.name);
    const auto before =
        std::count_if(machine.nics.begin(), machine.nics.begin() + static_cast<std::ptrdiff_t>(index),
                      [](const Nic& one) { return one.usable; });
    net.set("dev", std::to_string(before));
    if (nic.rate_bits_per_second > 0) net.set("speed", std::to_string(nic.rate_bits_per_second / 1'000'000));
    net.set("port", std::to_string(nic.rdma_port));
    element.inner.push_back(std::move(net));
  }
  return element;
}

Element function_element(const Machine& machine, const std::string& address, const PciNode& function) {
  Element element{"pci", {}, {}};
  const PciFunction& facts = *function.facts;
  element.set("busid", address);
  element.set_known("class", facts.device_class);
  element.set_known("vendor", facts.vendor);
  element.set_known("device", facts.device);
  element.set_known("subsystem_vendor", facts.subsystem_vendor);
  element.set_known("subsystem_device", facts.subsystem_device);
  const PciLink link = pci_link(function);  // NCCL takes an empty text and 0 for unknown
  element.set("link_speed", link.speed);
  element.set("link_width", std::to_string(link.width));
  for (std::size_t gpu : function.gpus) element.inner.push_back(gpu_element(machine, gpu));
  if (!function.nics.empty()) element.inner.push_back(nic_element(machine, function.nics));
  for (const auto& [name, below] : function.below)
    element.inner.push_back(function_element(machine, name, below));
  return element;
}

/// The family as NCCL adds up the CPUID instruction's fields; the kernel adds AMD's differently.
int family_for_nccl(int family) {
  constexpr int kExtended = 15;
  return family > kExtended ? kExtended + ((family - kExtended) << 4) : family;
}

Element cpu_element(const Machine& machine, int node) {
  Element element{"cpu", {}, {}};
  element.set("numaid", std::to_string(node));
  for (const NumaNode& known : machine.nodes) {
    if (known.id == node) element.set_known("affinity", known.cpu_mask);
  }
  const Processor& processor = machine.processor;
  element.set_known("arch", processor.arch);
  if (processor.arch == "x86_64") {
    element.set_known("vendor", processor.vendor);
    element.set("familyid", std::to_string(family_for_nccl(processor.family)));
    element.set("modelid", std::to_string(processor.model));
  }
  return element;
}

}  // namespace

std::string nccl_xml(const Machine& machine) {
  PciForest forest = pci_forest(machine, [](const Nic& nic) { return nic.usable; });
  Element system{"system", {}, {}};
  system.set("version", "1");
  for (const auto& [node, functions] : forest.roots) {
    Element cpu = cpu_element(machine, node);
    for (const auto& [address, function] : functions)
      cpu.inner.push_back(function_element(machine, address, function));
    if (!forest.nics.empty()) cpu.inner.push_back(nic_element(machine, forest.nics));
    forest.nics.clear();
    system.inner.push_back(std::move(cpu));
  }
  std::string out;
  system.write(out, 0);
  return out;
}

}  // namespace tombolo::topology
