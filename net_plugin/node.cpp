#include "net_plugin/node.h"

#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "net_plugin/parameters.h"
#include "topology/detect.h"

namespace tombolo::net_plugin {
namespace {

/// NCCL assumes the same where the speed of a NIC is unknown.
constexpr int kUnknownSpeedMegabits = 10000;

int speed_megabits(const topology::Nic& nic) {
  auto megabits = nic.rate_bits_per_second / 1'000'000;
  if (megabits == 0) return kUnknownSpeedMegabits;
  return static_cast<int>(std::min<std::uint64_t>(megabits, 10'000'000));
}

/// Returns the path if this machine has it. A cluster file may state the paths of another machine, and NCCL
/// fails on a path that it cannot read.
std::string existing_path(const std::string& path) {
  return !path.empty() && ::access(path.c_str(), F_OK) == 0 ? path : std::string{};
}

NetDevice make_device(const topology::Host& host, std::string name, std::vector<topology::Nic> nics) {
  NetDevice device;
  // The hash must be stable, because NCCL's topology dumps are compared across processes and builds.
  device.guid = fnv1a<std::uint64_t>(host.name + ":" + name);
  device.name = std::move(name);
  device.pci_path = existing_path(nics.front().pci_path);
  device.speed_megabits = speed_megabits(*std::ranges::max_element(nics, {}, speed_megabits));
  device.host = host;
  device.host.nics = std::move(nics);
  return device;
}

}  // namespace

std::vector<NetDevice> make_devices(const topology::Host& host, DeviceMode mode) {
  std::vector<topology::Nic> nics = host.nics;
  std::erase_if(nics, [](const topology::Nic& nic) { return nic.addresses.empty(); });
  if (nics.empty()) {
    fail(Cause::kUnsupported,
         "host '{}' has no usable NIC with an address; `tombolo topo` says why each was rejected, and a "
         "cluster file (TOMBOLO_CLUSTER) can name the ones to use",
         host.name);
  }
  std::ranges::stable_sort(nics, {}, &topology::Nic::kind);
  if (mode == DeviceMode::kMerged) return {make_device(host, "tombolo0", std::move(nics))};

  auto standby =
      std::ranges::find_if(nics, [&](const topology::Nic& nic) { return nic.kind != nics.front().kind; });
  std::vector<NetDevice> devices;
  for (auto nic = nics.begin(); nic != standby; ++nic) {
    std::vector<topology::Nic> own{*nic};
    own.insert(own.end(), standby, nics.end());
    devices.push_back(make_device(host, nic->name, std::move(own)));
  }
  return devices;
}

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
  topology::DetectOptions options;
  options.log = log;
  topology::Host host = topology::local_host(options);
  std::optional<topology::ClusterFile> file = topology::cluster_file_from_environment();
  if (!file) {
    if (const std::string warning = poor_choice_warning(host); !warning.empty()) log.warning("{}", warning);
  }

  Node node;
  node.devices = make_devices(
      host, kNetDevicesParameter.choice() == "merged" ? DeviceMode::kMerged : DeviceMode::kPerNic);
  node.router = transport::RouterOptions::from_environment(file ? &*file : nullptr);
  node.deadline = from_seconds(kNetDeadlineParameter.seconds());
  node.groups = kNetGroupsParameter.choice() == "on";
  return node;
}

}  // namespace tombolo::net_plugin
