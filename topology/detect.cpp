#include "topology/detect.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/error.h"
#include "compute/cores.h"
#include "topology/judge/usability.h"
#include "topology/system/gpu.h"
#include "topology/system/interfaces.h"
#include "topology/system/locality.h"
#include "topology/system/rdma.h"
#include "topology/system/sys_tree.h"

namespace tombolo::topology {
namespace {

std::string machine_host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

/// How many numbers a list such as "0-3,8" has; 0 where it is none.
int count_of_list(std::string_view text) {
  constexpr int kMost = 1 << 16;
  int count = 0;
  while (!text.empty()) {
    std::string_view range = text.substr(0, text.find(','));
    text.remove_prefix(std::min(range.size() + 1, text.size()));
    int first = 0, last = 0;
    auto [rest, status] = std::from_chars(range.data(), range.data() + range.size(), first);
    if (status != std::errc{} || first < 0) return 0;
    last = first;
    if (rest != range.data() + range.size()) {
      if (*rest != '-') return 0;
      auto [end, second] = std::from_chars(rest + 1, range.data() + range.size(), last);
      if (second != std::errc{} || end != range.data() + range.size() || last < first) return 0;
    }
    if (last >= kMost) return 0;
    count += last - first + 1;
  }
  return count;
}

/// "MemTotal:       16384 kB"
std::uint64_t total_memory(const SysTree& tree) {
  std::string text = tree.text("/proc/meminfo").value_or("");
  auto at = text.find("MemTotal:");
  if (at == std::string::npos) return 0;
  at = text.find_first_of("0123456789", at);
  if (at == std::string::npos) return 0;
  std::uint64_t kibibytes = 0;
  std::from_chars(text.data() + at, text.data() + text.size(), kibibytes);
  constexpr std::uint64_t kMost = 1ULL << 50;  // an exbibyte; a larger value is garbage
  return kibibytes < kMost ? kibibytes * 1024 : 0;
}

/// Adds NUMA nodes that hwloc knows and that the firmware did not tell the kernel.
void fill_in_numa_nodes(Machine& machine, const Locality& locality) {
  auto fill_in = [&](std::optional<int>& node, const std::string& pci_path, const std::string& name) {
    if (node) return;
    if (auto found = locality.node_of_pci.find(pci_path.substr(pci_path.rfind('/') + 1));
        !pci_path.empty() && found != locality.node_of_pci.end()) {
      node = found->second;
    } else if (auto device = locality.node_of_device.find(name); device != locality.node_of_device.end()) {
      node = device->second;
    }
  };
  for (Nic& nic : machine.nics) {
    // a NIC without hardware is near no node
    if (!nic.pci_path.empty()) fill_in(nic.numa_node, nic.pci_path, nic.name);
  }
  for (Device& gpu : machine.gpus) fill_in(gpu.numa_node, gpu.pci_path, gpu.name);
  if (machine.numa_nodes == 0) machine.numa_nodes = locality.numa_nodes;
}

bool is_better(const Nic& a, const Nic& b) {
  if (a.usable != b.usable) return a.usable;
  if (a.kind != b.kind) return a.kind < b.kind;
  if (a.rate_bits_per_second != b.rate_bits_per_second)
    return a.rate_bits_per_second > b.rate_bits_per_second;
  return a.name < b.name;
}

/// Adds to the cluster file's host what the file leaves out and detection knows, addresses above all.
void complete(Host& host, const std::vector<Nic>& detected) {
  for (Nic& nic : host.nics) {
    auto found =
        std::find_if(detected.begin(), detected.end(), [&](const Nic& one) { return one.name == nic.name; });
    if (found == detected.end()) continue;
    if (nic.addresses.empty()) nic.addresses = found->addresses;
    if (nic.mtu == 0) nic.mtu = found->mtu;
    if (!nic.numa_node) nic.numa_node = found->numa_node;
    if (nic.driver.empty()) nic.driver = found->driver;
    if (nic.pci_path.empty()) nic.pci_path = found->pci_path;
    if (nic.rate_bits_per_second == 0) nic.rate_bits_per_second = found->rate_bits_per_second;
    if (nic.networks.empty()) nic.networks = found->networks;
    if (nic.routes.empty()) nic.routes = found->routes;
    if (nic.gids.empty() && nic.rdma_device == found->rdma_device) nic.gids = found->gids;
  }
}

}  // namespace

Machine detect(const DetectOptions& options) {
  std::error_code error;
  const bool one_file = std::filesystem::is_regular_file(options.root, error);
  if (!one_file) std::filesystem::directory_iterator readable(options.root, error);
  if (!one_file && error) {
    fail(Cause::kInvalidUsage, "detecting the hardware below {}: cannot read that folder: {}",
         options.root.string(), error.message());
  }
  SysTree tree(options.root);
  Machine machine;
  machine.host_name = options.live ? machine_host_name() : tree.text("/etc/hostname").value_or("");
  if (machine.host_name.empty()) machine.host_name = "unknown";
  machine.cores = options.live ? compute::usable_processors()
                               : count_of_list(tree.text("/sys/devices/system/cpu/online").value_or(""));
  machine.nodes = read_numa_nodes(tree);
  machine.numa_nodes = static_cast<int>(machine.nodes.size());
  machine.processor = read_processor(tree);
  machine.memory_bytes = total_memory(tree);
  machine.nics = judge(read_interfaces(tree, options.live), read_rdma_ports(tree, options.live));
  machine.gpus = read_gpus(tree, options.live);
  std::vector<std::string> functions;
  for (const Nic& nic : machine.nics) functions.push_back(nic.pci_path);
  for (const Gpu& gpu : machine.gpus) functions.push_back(gpu.pci_path);
  machine.pci = read_pci_functions(tree, functions);
  bool has_hardware = !machine.gpus.empty() ||
                      std::any_of(machine.nics.begin(), machine.nics.end(),
                                  [](const Nic& nic) { return !nic.pci_path.empty() && !nic.numa_node; });
  if (options.live && (has_hardware || machine.numa_nodes == 0)) {
    std::string problem;
    if (auto locality = read_locality(&problem)) {
      fill_in_numa_nodes(machine, *locality);
    } else {
      options.log.info("NUMA nodes are taken from /sys alone: {}", problem);
    }
  }
  std::stable_sort(machine.nics.begin(), machine.nics.end(), is_better);
  for (const Nic& nic : machine.nics) {
    options.log.trace("{}: {}: {}", nic.name, nic.usable ? "usable" : "not usable", nic.reason);
  }
  return machine;
}

Host to_host(const Machine& machine) {
  Host host;
  host.name = machine.host_name;
  std::copy_if(machine.nics.begin(), machine.nics.end(), std::back_inserter(host.nics),
               [](const Nic& nic) { return nic.usable; });
  host.devices.assign(machine.gpus.begin(), machine.gpus.end());
  if (host.devices.empty()) {
    Device cpu;
    cpu.name = "cpu";
    cpu.kind = DeviceKind::kCpu;
    cpu.memory_bytes = static_cast<double>(machine.memory_bytes);
    host.devices.push_back(std::move(cpu));
  }
  return host;
}

Host local_host(const DetectOptions& options) {
  std::string name = kHostParameter.text();
  auto file = cluster_file_from_environment();
  if (!file) {
    Host host = to_host(detect(options));
    if (!name.empty()) host.name = name;
    return host;
  }
  const bool given = !name.empty();
  if (!given) name = machine_host_name();
  const Host* found = file->find_host(name);
  // The file may say "node7" where the host calls itself "node7.example.org".
  if (found == nullptr && !given) found = file->find_host(name.substr(0, name.find('.')));
  if (found == nullptr) {
    std::vector<std::string> known;
    for (const Host& host : file->hosts) known.push_back(host.name);
    fail(Cause::kInvalidUsage, "{} names no host \"{}\" ({}); it names {}. Set TOMBOLO_HOST to one of them.",
         kClusterParameter.text(), name, given ? "TOMBOLO_HOST" : "this machine's host name",
         fmt::join(known, ", "));
  }
  Host host = *found;
  bool incomplete =
      std::any_of(host.nics.begin(), host.nics.end(), [](const Nic& nic) { return nic.addresses.empty(); });
  if (incomplete) {
    SysTree tree(options.root);
    complete(host, judge(read_interfaces(tree, options.live), read_rdma_ports(tree, options.live)));
  }
  return host;
}

}  // namespace tombolo::topology
