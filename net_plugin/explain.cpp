#include "net_plugin/explain.h"

#include <dlfcn.h>

#include <algorithm>

#include "base/format.h"
#include "base/units.h"

namespace tombolo::net_plugin {
namespace {

using topology::Nic;

std::string rate_of(const Nic& nic) {
  if (nic.rate_bits_per_second == 0) return "speed unknown";
  return format_bit_rate(static_cast<double>(nic.rate_bits_per_second) / 8);
}

std::string short_form(const Nic& nic) {
  return fmt::format("{} {}{} {}", nic.name, topology::nic_kind_name(nic.kind),
                     nic.emulated ? " (emulated)" : "", rate_of(nic));
}

const Nic* find(const std::vector<Nic>& nics, const std::string& name) {
  const auto found = std::ranges::find(nics, name, &Nic::name);
  return found == nics.end() ? nullptr : &*found;
}

std::string list_of(const NetDevice& device, const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names)
    if (const Nic* nic = find(device.host.nics, name)) text += (text.empty() ? "" : ", ") + short_form(*nic);
  return text;
}

/// What carries a NIC's bytes, and where that is not RDMA on a NIC of an RDMA kind why not.
std::string carried_by(const Nic& nic, const std::map<std::string, std::string>& problems) {
  if (!topology::is_rdma(nic.kind)) return "TCP";
  if (nic.emulated) return "TCP, because its kind is only declared";
  const auto found = problems.find(nic.name);
  if (found == problems.end() || found->second.empty()) return "RDMA between NICs of its kind, else TCP";
  return "TCP, because RDMA cannot be had: " + found->second;
}

std::string memory_of(const Explanation& of, std::size_t device) {
  return device < of.memory.size() ? of.memory[device] : std::string("host memory");
}

void describe(std::vector<std::string>& lines, std::size_t index, const NetDevice& device,
              const Explanation& of) {
  const Nic& first = device.host.nics.front();
  std::string line = fmt::format("device {} {}: {}", index, device.name, list_of(device, device.own));
  line += fmt::format("; told NCCL {} Mbit/s", device.speed_megabits);
  if (device.latency_microseconds > 0) line += fmt::format(", {:.1f} us", device.latency_microseconds);
  if (!first.rdma_device.empty()) line += fmt::format(", {} port {}", first.rdma_device, first.rdma_port);
  if (first.numa_node) line += fmt::format(", NUMA node {}", *first.numa_node);
  line += device.pci_path.empty() ? ", not on the PCI bus"
                                  : ", PCI " + device.pci_path.substr(device.pci_path.rfind('/') + 1);
  if (device.rail >= 0) line += fmt::format(", rail {}", device.rail);
  if (device.plane >= 0) line += fmt::format(", plane {}", device.plane);
  lines.push_back(std::move(line));
  lines.push_back(fmt::format("device {} carries {} over {}{}", index, memory_of(of, index),
                              carried_by(first, of.rdma_problems),
                              first.reason.empty() ? "" : "; detected as: " + first.reason));
  if (!device.standby.empty())
    lines.push_back(fmt::format("device {} has standing by, for peers that its own cannot reach: {}", index,
                                list_of(device, device.standby)));
}

}  // namespace

std::vector<std::string> explain(const Explanation& of) {
  std::vector<std::string> lines;
  lines.push_back(
      fmt::format("Tombolo {} as {}, net ABI v{}, {}, on host {}: {} device{}. Every connection "
                  "chooses its own transport",
                  of.version, of.name, of.abi, memory_of(of, 0), of.host, of.devices.size(),
                  of.devices.size() == 1 ? "" : "s"));
  lines.push_back(
      fmt::format("library {}; NICs are from {}", of.library.empty() ? "?" : of.library, of.source));
  for (std::size_t i = 0; i < of.devices.size(); ++i) describe(lines, i, *of.devices[i], of);
  for (const Nic& nic : of.nics) {
    if (nic.usable && !nic.addresses.empty()) continue;
    lines.push_back(fmt::format("NIC {} ({}) is not used: {}", nic.name, topology::nic_kind_name(nic.kind),
                                nic.usable ? "it has no address" : nic.reason));
  }
  for (const SeenVariable& one : of.variables)
    lines.push_back(fmt::format("{}='{}': {}", one.name, one.value, one.effect));
  lines.insert(lines.end(), of.beside.begin(), of.beside.end());
  return lines;
}

std::string library_path() {
  Dl_info info{};
  static const char here = 0;
  if (::dladdr(&here, &info) == 0 || info.dli_fname == nullptr) return {};
  return info.dli_fname;
}

}  // namespace tombolo::net_plugin
