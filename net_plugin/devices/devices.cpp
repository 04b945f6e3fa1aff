#include "net_plugin/devices/devices.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/hash.h"
#include "net_plugin/devices/pci_place.h"

namespace tombolo::net_plugin {
namespace {

using topology::Nic;
using topology::NicKind;

/// NCCL assumes the same where the speed of a NIC is unknown.
constexpr int kUnknownSpeedMegabits = 10000;
constexpr std::uint64_t kMegabit = 1'000'000;
constexpr int kMostMegabits = 10'000'000;
constexpr int kSlowestBeside = 10;

/// iWARP NICs carry TCP only.
bool carries_rdma(const Nic& nic) {
  return nic.kind == NicKind::kInfiniBand || nic.kind == NicKind::kRoce;
}

/// What the cluster file says of links from a NIC. Those to other clusters say little of the NIC itself, and
/// are left out.
struct Measured {
  double bytes_per_second = 0, latency_seconds = 0;  // 0 = not known
};

Measured measured_from(const topology::Host& host, const std::string& nic,
                       const topology::ClusterFile* file) {
  Measured best;
  if (file == nullptr) return best;
  for (const topology::Link& link : file->links) {
    if (link.from_host != host.name || link.from_nic != nic) continue;
    const topology::Host* to = file->find_host(link.to_host);
    if (to == nullptr || to->name == host.name || to->cluster != host.cluster) continue;
    best.bytes_per_second = std::max(best.bytes_per_second, link.measured ? link.bytes_per_second : 0);
    if (best.latency_seconds == 0 || link.latency_seconds < best.latency_seconds)
      best.latency_seconds = link.latency_seconds;
  }
  return best;
}

int speed_megabits(const Nic& nic, const Measured& measured) {
  auto megabits = nic.rate_bits_per_second / kMegabit;
  const auto attained = static_cast<std::uint64_t>(std::llround(measured.bytes_per_second * 8 / kMegabit));
  if (attained > 0 && (megabits == 0 || attained < megabits)) megabits = attained;
  if (megabits == 0) return kUnknownSpeedMegabits;
  return static_cast<int>(std::min<std::uint64_t>(megabits, kMostMegabits));
}

/// Whether NICs of that kind, of which none is another's second interface (a VLAN), share a fabric on the
/// host.
bool share_fabric(const topology::Host& host, NicKind kind, const std::string& fabric) {
  const Nic* first = nullptr;
  for (const Nic& nic : host.nics) {
    if (nic.kind != kind || nic.fabric != fabric) continue;
    const bool same_port = first != nullptr && !nic.rdma_device.empty() &&
                           nic.rdma_device == first->rdma_device && nic.rdma_port == first->rdma_port;
    if (first != nullptr && !same_port) return true;
    if (first == nullptr) first = &nic;
  }
  return false;
}

/// The number of the NIC's fabric among its cluster's, in the order in which the file first names them. A NIC
/// of the same number on another host of the file, also of another cluster, is of the same rail. A fabric
/// that two NICs of a host share, as all of a fat tree do, says nothing of rails: NCCL would take the two for
/// one rail, and let a ring leave the host by another NIC than it came. Neither do names that detection
/// gives.
int rail_of(const topology::Host& host, const Nic& nic, const topology::ClusterFile* file) {
  if (file == nullptr || nic.fabric.empty()) return -1;
  std::vector<std::string> fabrics;
  for (const topology::Host& other : file->hosts) {
    if (other.cluster != host.cluster) continue;
    if (share_fabric(other, nic.kind, nic.fabric)) return -1;
    for (const Nic& one : other.nics) {
      if (one.kind != nic.kind || one.fabric.empty()) continue;
      if (std::ranges::find(fabrics, one.fabric) == fabrics.end()) fabrics.push_back(one.fabric);
    }
  }
  const auto found = std::ranges::find(fabrics, nic.fabric);
  return found == fabrics.end() ? -1 : static_cast<int>(found - fabrics.begin());
}

/// Equal for the interfaces of one port: an RDMA port's VLANs, a virtual function and its physical one.
std::uint64_t guid_of(const topology::Host& host, const Nic& nic, const DeviceSources& sources) {
  if (const std::uint64_t guid = node_guid(sources.tree, nic.rdma_device); guid != 0)
    return guid ^ static_cast<std::uint64_t>(nic.rdma_port)
                      << 56;  // a card's GUIDs follow each other closely
  // The hash must be stable, because NCCL's topology dumps are compared across processes and builds.
  std::string port = nic.pci_path.empty() ? nic.name : nic.pci_path;
  if (!nic.rdma_device.empty()) port = fmt::format("{}/{}", nic.rdma_device, nic.rdma_port);
  return fnv1a<std::uint64_t>(host.name + ":" + port);
}

NetDevice device_of(const topology::Host& host, const Nic& nic, const DeviceSources& sources) {
  const Measured measured = measured_from(host, nic.name, sources.file);
  NetDevice device;
  device.name = nic.name;
  device.pci_path = pci_place(sources.tree, nic);
  device.guid = guid_of(host, nic, sources);
  device.speed_megabits = speed_megabits(nic, measured);
  device.port = nic.rdma_port;
  device.latency_microseconds = static_cast<float>(measured.latency_seconds * 1e6);
  device.rail = rail_of(host, nic, sources.file);
  if (const NicFilter::Entry* named = sources.environment.entry_of(nic)) {
    if (named->rail >= 0) device.rail = named->rail;
    device.plane = named->plane;
  }
  device.host = host;
  device.host.nics = {nic};
  device.own = {nic.name};
  return device;
}

/// The NICs that become devices, out of `nics`, best first: one for each port.
std::vector<const Nic*> ports_of(const std::vector<const Nic*>& nics, const topology::Host& host,
                                 const DeviceSources& sources) {
  std::uint64_t best = 0;
  for (const Nic* nic : nics) best = std::max(best, nic->rate_bits_per_second);
  std::vector<const Nic*> ports;
  std::vector<std::uint64_t> guids;
  for (const Nic* nic : nics) {
    const std::uint64_t rate = nic->rate_bits_per_second;
    if (rate != 0 && rate * kSlowestBeside < best) continue;
    const std::uint64_t guid = guid_of(host, *nic, sources);
    if (std::ranges::find(guids, guid) != guids.end()) continue;
    guids.push_back(guid);
    ports.push_back(nic);
  }
  return ports;
}

NetDevice merged(const topology::Host& host, const std::vector<Nic>& nics, const DeviceSources& sources) {
  NetDevice device = device_of(host, nics.front(), sources);
  device.name = "tombolo0";
  device.guid = fnv1a<std::uint64_t>(host.name + ":" + device.name);
  device.rail = device.plane = -1;
  for (const Nic& nic : nics) {
    device.speed_megabits = std::max(device.speed_megabits, device_of(host, nic, sources).speed_megabits);
    if (nic.name != nics.front().name) device.own.push_back(nic.name);
  }
  device.host.nics = nics;
  device.parts = {0};
  return device;
}

std::vector<Nic> usable_nics(const topology::Host& host) {
  std::vector<Nic> nics = host.nics;
  std::erase_if(nics, [](const Nic& nic) { return nic.addresses.empty() || !nic.usable; });
  if (nics.empty()) {
    fail(Cause::kUnsupported,
         "host '{}' has no usable NIC with an address; `tombolo topo` says why each was rejected, and a "
         "cluster file (TOMBOLO_CLUSTER) can name the ones to use",
         host.name);
  }
  std::ranges::stable_sort(nics, {}, &Nic::kind);
  return nics;
}

}  // namespace

std::vector<NetDevice> make_devices(const topology::Host& host, DeviceMode mode,
                                    const DeviceSources& sources) {
  const std::vector<Nic> nics = usable_nics(host);
  if (mode == DeviceMode::kMerged) return {merged(host, nics, sources)};

  std::vector<const Nic*> candidates;
  for (const Nic& nic : nics) {
    const bool wanted = mode == DeviceMode::kPerNic ? nic.kind == nics.front().kind : carries_rdma(nic);
    if (wanted) candidates.push_back(&nic);
  }
  // NCCL gives each of its channels an equal part of the data. TCP connections that each use every NIC, as
  // much as it attains, end together even where the NICs are unlike; those that use one NIC each would all
  // wait for the slowest, and a single one would leave the others idle.
  const bool all_own = candidates.empty();
  if (all_own)
    for (const Nic& nic : nics) candidates.push_back(&nic);

  std::vector<NetDevice> devices;
  for (const Nic* nic : ports_of(candidates, host, sources)) {
    NetDevice device = device_of(host, *nic, sources);
    for (const Nic& other : nics) {
      if (other.name == nic->name) continue;
      device.host.nics.push_back(other);
      (all_own ? device.own : device.standby).push_back(other.name);
    }
    device.parts = {static_cast<int>(devices.size())};
    devices.push_back(std::move(device));
  }
  return devices;
}

DeviceList::DeviceList(std::vector<NetDevice> physical)
    : devices_(std::make_move_iterator(physical.begin()), std::make_move_iterator(physical.end())) {}

std::size_t DeviceList::size() const {
  std::lock_guard guard(lock_);
  return devices_.size();
}

const NetDevice& DeviceList::at(int index) const {
  std::lock_guard guard(lock_);
  return at_locked(index);
}

const NetDevice& DeviceList::at_locked(int index) const {
  if (index < 0 || static_cast<std::size_t>(index) >= devices_.size())
    fail(Cause::kInvalidUsage, "device {} does not exist: there are {}", index, devices_.size());
  return devices_[static_cast<std::size_t>(index)];
}

namespace {

/// Why two devices cannot be one; empty where they can. Connections use each NIC as much as it attains, but
/// by RDMA none beside one that is far faster.
std::string why_not_together(const NetDevice& one, const NetDevice& other) {
  const Nic &left = one.host.nics.front(), &right = other.host.nics.front();
  if (left.kind != right.kind)
    return fmt::format("{} is {} and {} is {}: one connection uses NICs of one kind", one.name,
                       topology::nic_kind_name(left.kind), other.name, topology::nic_kind_name(right.kind));
  const auto [slow, fast] = std::minmax(left.rate_bits_per_second, right.rate_bits_per_second);
  if (carries_rdma(left) && slow * kSlowestBeside < fast)
    return fmt::format("of {} and {} one is less than a tenth as fast as the other", one.name, other.name);
  return {};
}

}  // namespace

int DeviceList::fuse(std::span<const int> parts, std::size_t most) {
  std::lock_guard guard(lock_);
  if (parts.empty() || parts.size() > most)
    fail(Cause::kInvalidUsage, "{} devices cannot be one: 1 to {} can", parts.size(), most);
  const std::vector<int> wanted(parts.begin(), parts.end());
  const NetDevice& first = at_locked(parts.front());
  NetDevice fused = first;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const NetDevice& part = at_locked(parts[i]);
    std::string why;
    if (part.parts.size() > 1) {
      why = part.name + " is made of several already";
    } else if (std::ranges::count(wanted, parts[i]) > 1) {
      why = part.name + " is there twice";
    } else if (part.pci_path.empty()) {
      why = part.name + " is not on the PCI bus, where NCCL would look for it";
    } else {
      why = why_not_together(first, part);
    }
    if (!why.empty()) {
      fail(Cause::kInvalidUsage, "devices {} cannot be one: {}. NCCL_NET_MERGE_LEVEL=LOC keeps them apart",
           fmt::join(wanted, ", "), why);
    }
    if (i == 0) continue;
    fused.name += "+" + part.name;
    fused.speed_megabits = std::min(fused.speed_megabits + part.speed_megabits, kMostMegabits);
    fused.latency_microseconds = std::max(fused.latency_microseconds, part.latency_microseconds);
    fused.guid ^= part.guid;
    if (part.rail != fused.rail) fused.rail = -1;
    if (part.plane != fused.plane) fused.plane = -1;
  }
  const auto made = std::ranges::find(devices_, wanted, &NetDevice::parts);
  if (made != devices_.end()) return static_cast<int>(made - devices_.begin());

  // Its NICs are all those of its parts, the parts' own first.
  std::vector<Nic> own, others;
  fused.own.clear();
  fused.standby.clear();
  const auto has = [](const std::vector<std::string>& names, const std::string& name) {
    return std::ranges::find(names, name) != names.end();
  };
  for (const int index : wanted) {
    const NetDevice& part = at_locked(index);
    for (const std::string& name : part.own)
      if (!has(fused.own, name)) fused.own.push_back(name);
  }
  for (const Nic& nic : first.host.nics) {
    const bool is_own = has(fused.own, nic.name);
    if (!is_own) fused.standby.push_back(nic.name);
    (is_own ? own : others).push_back(nic);
  }
  own.insert(own.end(), others.begin(), others.end());
  fused.host.nics = std::move(own);
  fused.parts = wanted;
  devices_.push_back(std::move(fused));
  return static_cast<int>(devices_.size()) - 1;
}

}  // namespace tombolo::net_plugin
