// tombolo topo: what is on this machine.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "tools/command.h"
#include "tools/table.h"
#include "topology/detect.h"

namespace tombolo::tools {
namespace {

constexpr const char* kHelp =
    "Finds every network interface, RDMA port and GPU, says what each is (InfiniBand, RoCE, iWARP or TCP), "
    "how fast\n"
    "and where it is, and whether Tombolo would use it, and why not. The best NIC comes first.\n"
    "\nExamples:\n"
    "  tombolo topo\n"
    "  tombolo topo --json | jq '.nics[] | select(.usable)'\n"
    "  tombolo topo --cluster-out host.json    a cluster file with this host, to edit or to merge with "
    "others'\n"
    "  tombolo topo --root recorded/           a recorded tree of /sys instead of this machine";

struct Options {
  bool json = false;
  std::string root;
  std::string cluster_out;
  std::string cluster = "A";
};

std::string kind_of(const topology::Nic& nic) {
  switch (nic.kind) {
    case topology::NicKind::kInfiniBand:
      return "InfiniBand";
    case topology::NicKind::kRoce:
      return nic.roce_v1 && nic.roce_v2 ? "RoCE v1+v2"
             : nic.roce_v2              ? "RoCE v2"
             : nic.roce_v1              ? "RoCE v1"
                                        : "RoCE";
    case topology::NicKind::kIwarp:
      return "iWARP";
    case topology::NicKind::kTcp:
      break;
  }
  return "TCP";
}

std::string or_dash(std::string text) {
  return text.empty() ? "-" : text;
}

std::string node_of(const std::optional<int>& node) {
  return node ? std::to_string(*node) : "-";
}

std::string pci_address(const std::string& path) {
  return or_dash(path.substr(path.rfind('/') + 1));
}

void print_tables(const topology::Machine& machine) {
  fmt::print("{}: {} cores, {} NUMA node{}, {} of memory\n\n", machine.host_name, machine.cores,
             machine.numa_nodes, machine.numa_nodes == 1 ? "" : "s", format_size(machine.memory_bytes));
  if (machine.nics.empty()) {
    fmt::print("No network interface and no RDMA port.\n");
  } else {
    Table table(
        {"NIC", "KIND", "RATE", "MTU", "STATE", "NUMA", "PCI", "DRIVER", "RDMA", "ADDRESS", "USED", "WHY"});
    for (const auto& nic : machine.nics) {
      std::string addresses = nic.addresses.empty() ? "-" : nic.addresses.front();
      if (nic.addresses.size() > 1) addresses += fmt::format(" +{}", nic.addresses.size() - 1);
      std::string rate = nic.rate_bits_per_second == 0
                             ? "-"
                             : format_bit_rate(static_cast<double>(nic.rate_bits_per_second) / 8);
      table.add({nic.name, kind_of(nic), rate, nic.mtu == 0 ? "-" : std::to_string(nic.mtu),
                 std::string(topology::nic_state_name(nic.state)), node_of(nic.numa_node),
                 pci_address(nic.pci_path), or_dash(nic.driver),
                 nic.rdma_device.empty() ? "-" : fmt::format("{}/{}", nic.rdma_device, nic.rdma_port),
                 addresses, nic.usable ? "yes" : "no", nic.reason});
    }
    fmt::print("{}", table.text(terminal_width()));
  }
  if (machine.gpus.empty()) {
    fmt::print("\nNo NVIDIA GPU.\n");
    return;
  }
  Table table({"GPU", "MEMORY", "NUMA", "PCI"});
  for (const auto& gpu : machine.gpus) {
    table.add({gpu.name,
               gpu.memory_bytes > 0 ? format_size(static_cast<std::uint64_t>(gpu.memory_bytes)) : "-",
               node_of(gpu.numa_node), pci_address(gpu.pci_path)});
  }
  fmt::print("\n{}", table.text(terminal_width()));
}

int run(const Options& options) {
  topology::DetectOptions detection;
  if (!options.root.empty()) {
    detection.root = options.root;
    detection.live = false;
  }
  detection.log = Log::to_stderr(LogLevel::kWarning);
  topology::Machine machine = topology::detect(detection);
  if (!options.cluster_out.empty()) {
    topology::ClusterFile file;
    file.note = "detected on one host; nothing is measured yet (tombolo probe does that)";
    file.hosts.push_back(topology::to_host(machine));
    file.hosts.back().cluster = options.cluster;
    file.save(options.cluster_out);
  }
  if (options.json) {
    fmt::print("{}\n", to_json(machine).dump(1, ' ', false, Json::error_handler_t::replace));
  } else {
    print_tables(machine);
    if (!options.cluster_out.empty()) fmt::print("\nCluster file written to {}\n", options.cluster_out);
  }
  return kExitOk;
}

}  // namespace

void add_topo(CommandLine& tombolo) {
  auto options = std::make_shared<Options>();
  CLI::App& app = tombolo.add("topo", "What NICs and GPUs are here, which are usable, and why", kHelp,
                              [options] { return run(*options); });
  app.add_flag("--json", options->json, "Print JSON instead of tables");
  app.add_option("--root", options->root,
                 "Read a recorded tree (DIR/sys/class/net/...) instead of this machine");
  app.add_option("--cluster-out", options->cluster_out, "Also write a cluster file with this one host");
  app.add_option("--cluster", options->cluster, "Name of the cluster in that file")->capture_default_str();
}

}  // namespace tombolo::tools
