#include "net_plugin/comms/node.h"

#include "base/error.h"
#include "net_plugin/parameters.h"
#include "topology/detect.h"

namespace tombolo::net_plugin {
namespace {

DeviceMode mode_of(const std::string& name) {
  if (name == "merged") return DeviceMode::kMerged;
  return name == "per-nic" ? DeviceMode::kPerNic : DeviceMode::kAuto;
}

/// This host with all its NICs, of which the environment leaves some usable. Without a cluster file a
/// variable may name NICs that detection would not use by default.
topology::Host host_of(const NcclEnvironment& environment, bool has_file, const Log& log) {
  topology::DetectOptions options;
  options.log = log;
  topology::Host host;
  if (has_file) {
    host = topology::local_host(options);
  } else {
    topology::Machine machine = topology::detect(options);
    host = topology::to_host(machine);
    if (const std::string name = topology::kHostParameter.text(); !name.empty()) host.name = name;
    host.nics = std::move(machine.nics);
  }
  environment.apply(host.nics);
  return host;
}

}  // namespace

std::string poor_choice_warning(const topology::Host& host) {
  using topology::NicRole;
  std::string used;
  bool only_loopback = true;
  for (const topology::Nic& nic : host.nics) {
    if (!nic.usable || nic.addresses.empty()) continue;
    if (nic.role != NicRole::kVirtual && nic.role != NicRole::kTunnel && nic.role != NicRole::kLoopback)
      return {};
    only_loopback &= nic.role == NicRole::kLoopback;
    used += fmt::format("{}{} ({})", used.empty() ? "" : ", ", nic.name, topology::nic_role_name(nic.role));
  }
  if (used.empty()) return {};
  return fmt::format(
      "host '{}' has no NIC that would be used by default (`tombolo topo` says why); using {}, {}. Name "
      "other NICs in a cluster file (TOMBOLO_CLUSTER)",
      host.name, used,
      only_loopback ? "which reaches only ranks on this host: ranks elsewhere will not get through"
                    : "which is all there is");
}

Node make_node(const Log& log) {
  Node node;
  node.environment = NcclEnvironment::of_process();
  std::optional<topology::ClusterFile> file = topology::cluster_file_from_environment();
  topology::Host host = host_of(node.environment, file.has_value(), log);
  const auto is_out = [](const topology::Nic& nic) { return !nic.usable || nic.addresses.empty(); };
  std::vector<topology::Nic> in_use = host.nics;
  std::erase_if(in_use, is_out);
  if (!in_use.empty()) {  // else there are no devices, which is said below
    node.gpu = gpu::Support::detect(gpu::GpuOptions::from_environment(), in_use);
    node.gpu->leave_out(host.nics);
  }
  node.nics = host.nics;
  node.source = file ? "the cluster file " + file->source : "detection";
  std::erase_if(host.nics, is_out);
  if (!file && !node.environment.all && !node.environment.sockets) {
    if (const std::string warning = poor_choice_warning(host); !warning.empty()) log.warning("{}", warning);
  }

  DeviceSources sources;
  sources.file = file ? &*file : nullptr;
  sources.environment = node.environment;
  node.devices =
      std::make_unique<DeviceList>(make_devices(host, mode_of(kNetDevicesParameter.choice()), sources));
  node.router = transport::RouterOptions::from_environment(sources.file);
  node.environment.apply(node.router.rdma);
  node.deadline = from_seconds(kNetDeadlineParameter.seconds());
  if (const double stall = kNetStallParameter.seconds(); stall > 0)
    node.stalls = std::make_shared<StallReports>(from_seconds(stall), rank_from_environment(), host.name);
  if (kNetOverlongParameter.choice() == "truncate") node.router.overlong = transport::Overlong::kTruncate;
  node.tuner = &tuner_settings_of_process(log);
  node.groups = kNetGroupsParameter.choice() == "on";
  return node;
}

}  // namespace tombolo::net_plugin
