#include "planner/plan/cluster_view.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "planner/model/index.h"
#include "planner/plan/rails.h"
#include "topology/files/library.h"

namespace tombolo::planner {

namespace {

using topology::Nic;
using topology::NicKind;

/// What routing looks at of a host's NICs.
std::string nics_said(const topology::Host& host) {
  std::string said;
  for (const Nic& nic : host.nics)
    said += fmt::format("{} {} {} {}\n", nic.usable, static_cast<int>(nic.kind), nic.rate_bits_per_second,
                        nic.fabric);
  return said;
}

}  // namespace

ClusterView::ClusterView(const topology::ClusterFile& cluster, std::string_view routing,
                         const std::vector<std::string>& hosts)
    : cluster_(cluster),
      routing_(routing == "shared" ? Routing::kShared : Routing::kPerPeer),
      shares_processor_(cluster.hosts.size(), false),
      links_(cluster) {
  if (routing != "per-peer" && routing != "shared")
    fail(Cause::kInvalidUsage, "routing is \"{}\", expected \"per-peer\" or \"shared\"", routing);
  if (cluster.shared_processor)
    for (const std::string& name : cluster.shared_processor->hosts)
      shares_processor_[at(host_index(name))] = true;
  std::map<std::string, int> kinds_of_hosts;
  for (const topology::Host& host : cluster.hosts)
    nics_alike_.push_back(
        kinds_of_hosts.try_emplace(nics_said(host), static_cast<int>(kinds_of_hosts.size())).first->second);
  for (const topology::SharedLink& link : cluster.shared_links)
    shared_.push_back({ends_of(link.from), ends_of(link.to)});
  std::set<int> taking_part;
  for (const std::string& name : hosts) taking_part.insert(host_index(name));
  if (hosts.empty())
    for (std::size_t h = 0; h < cluster.hosts.size(); ++h) taking_part.insert(static_cast<int>(h));
  if (routing_ == Routing::kShared) find_shared_kind({taking_part.begin(), taking_part.end()});
}

int ClusterView::host_index(std::string_view name) const {
  if (const auto found = links_.host_index(name)) return *found;
  std::vector<std::string> names;
  for (const auto& host : cluster_.hosts) names.push_back(host.name);
  fail(Cause::kInvalidUsage, "{} has no host \"{}\"; it has {}", cluster_.source, name,
       fmt::join(names, ", "));
}

std::set<std::pair<int, int>> ClusterView::ends_of(const std::vector<topology::NicName>& names) const {
  std::set<std::pair<int, int>> ends;
  for (const topology::NicName& name : names) {
    const auto host = links_.host_index(name.host);
    const auto nic = host ? links_.nic_index(*host, name.nic) : std::nullopt;
    // a name may be unknown in a cluster that was made in memory and not read from a file
    if (nic) ends.insert({*host, *nic});
  }
  return ends;
}

bool ClusterView::reachable(const Nic& from, const Nic& to) const {
  if (!from.usable || !to.usable || from.kind != to.kind || from.fabric != to.fabric) return false;
  return std::none_of(cluster_.unreachable.begin(), cluster_.unreachable.end(), [&](const auto& pair) {
    return (pair.first == from.fabric && pair.second == to.fabric) ||
           (pair.second == from.fabric && pair.first == to.fabric);
  });
}

const ClusterView::Choice* ClusterView::choose(int from, int to) const {
  const HostPair alike{nics_alike_[at(from)], nics_alike_[at(to)]};
  auto known = choices_.find(alike);
  if (known == choices_.end()) known = choices_.emplace(alike, best_choice(from, to)).first;
  return known->second ? &*known->second : nullptr;
}

// This is the transport's rule: equal fabric, then the better kind, then the higher of the pairs' lower
// rates, then the first in the hosts' order.
std::optional<ClusterView::Choice> ClusterView::best_choice(int from, int to) const {
  std::optional<Choice> best;
  std::uint64_t best_rate = 0;
  const auto &out = host(from).nics, &in = host(to).nics;
  for (std::size_t i = 0; i < out.size(); ++i) {
    for (std::size_t j = 0; j < in.size(); ++j) {
      if (!reachable(out[i], in[j]) || (shared_kind_ && out[i].kind != *shared_kind_)) continue;
      const std::uint64_t rate = std::min(out[i].rate_bits_per_second, in[j].rate_bits_per_second);
      if (best && (out[i].kind > best->kind || (out[i].kind == best->kind && rate < best_rate))) continue;
      if (!best || out[i].kind < best->kind || rate > best_rate)
        best = Choice{static_cast<int>(i), static_cast<int>(j), out[i].kind, {}, {}};
      best_rate = rate;
      best->all_from.push_back(static_cast<int>(i));
      best->all_to.push_back(static_cast<int>(j));
    }
  }
  if (!best) return best;
  for (std::vector<int>* all : {&best->all_from, &best->all_to}) {
    std::ranges::sort(*all);
    all->erase(std::unique(all->begin(), all->end()), all->end());
  }
  return best;
}

void ClusterView::find_shared_kind(const std::vector<int>& hosts) {
  for (const NicKind kind : {NicKind::kInfiniBand, NicKind::kRoce, NicKind::kIwarp, NicKind::kTcp}) {
    shared_kind_ = kind;
    choices_.clear();
    bool all = true;
    for (std::size_t i = 0; i < hosts.size() && all; ++i)
      for (std::size_t j = i + 1; j < hosts.size() && all; ++j) all = choose(hosts[i], hosts[j]) != nullptr;
    if (all) return;
  }
  fail(Cause::kInvalidUsage,
       "shared routing: no NIC kind connects all {} hosts with each other; use per-peer routing",
       hosts.size());
}

std::optional<NicKind> ClusterView::kind_between(int from, int to) const {
  const Choice* choice = choose(from, to);
  if (choice == nullptr) return std::nullopt;
  return choice->kind;
}

std::optional<ClusterView::NicsBetween> ClusterView::nics_between(int from, int to) const {
  const Choice* choice = choose(from, to);
  if (choice == nullptr) return std::nullopt;
  return NicsBetween{&choice->all_from, &choice->all_to};
}

bool ClusterView::linked(int from, int to) const {
  if (from == to || paths_.contains({from, to})) return true;
  const Choice* pair = choose(from, to);
  return pair != nullptr && links_.find(from, pair->from, to, pair->to);
}

const Path& ClusterView::path(int from, int to) const {
  const auto known = paths_.find({from, to});
  if (known != paths_.end()) return known->second;
  Path path;
  const auto &source = host(from), &target = host(to);
  if (from == to) {
    path.inside_host = true;
    for (int nic = 0; at(nic) < source.nics.size(); ++nic) {
      path.kind = std::min(path.kind, source.nics[at(nic)].kind);
      const auto link = links_.find(from, nic, from, nic);
      if (!link) continue;
      path.bytes_per_second = std::max(path.bytes_per_second, link->bytes_per_second);
      path.latency_seconds = link->latency_seconds;
    }
    if (source.device_bytes_per_second > 0) path.bytes_per_second = source.device_bytes_per_second;
    return paths_.emplace(HostPair{from, to}, path).first->second;
  }
  const Choice* pair = choose(from, to);
  if (pair == nullptr)
    fail(Cause::kInvalidUsage,
         "hosts {} and {} must talk, but no two of their NICs are of one kind and fabric and usable{}; add "
         "such a "
         "NIC to the cluster file, or leave one of the hosts out",
         source.name, target.name,
         shared_kind_
             ? fmt::format(" (shared routing allows only {})", topology::nic_kind_name(*shared_kind_))
             : "");
  const auto link = links_.find(from, pair->from, to, pair->to);
  if (!link)
    fail(Cause::kInvalidUsage,
         "{} has no link from {}/{} to {}/{}, over which this plan sends; measure it (tombolo "
         "probe), or declare it under \"links\" or, for all NICs of a fabric, under \"fabrics\"",
         cluster_.source, source.name, source.nics[at(pair->from)].name, target.name,
         target.nics[at(pair->to)].name);
  path.from_nic = pair->from;
  path.to_nic = pair->to;
  path.from_nics = &pair->all_from;
  path.to_nics = &pair->all_to;
  path.kind = pair->kind;
  path.bytes_per_second = link->bytes_per_second;
  path.latency_seconds = link->latency_seconds;
  path.shared = shared_between(from, pair->from, to, pair->to);
  for (const int shared : path.shared)
    path.bytes_per_second =
        std::min(path.bytes_per_second, cluster_.shared_links[at(shared)].bytes_per_second);
  return paths_.emplace(HostPair{from, to}, path).first->second;
}

std::vector<int> ClusterView::shared_between(int from_host, int from_nic, int to_host, int to_nic) const {
  std::vector<int> crossed;
  for (std::size_t shared = 0; shared < shared_.size(); ++shared)
    if (shared_[shared].from.contains({from_host, from_nic}) &&
        shared_[shared].to.contains({to_host, to_nic}))
      crossed.push_back(static_cast<int>(shared));
  return crossed;
}

int ClusterView::nics_taken(int host_index, int devices, const std::vector<int>& nics) const {
  const std::size_t all = std::max<std::size_t>(1, host(host_index).devices.size());
  return static_cast<int>(std::clamp<std::size_t>(nics.size() * at(devices) / all, 1, nics.size()));
}

double ClusterView::together(int from, int to, int from_devices, int to_devices, NicUse use) const {
  const Path& path = this->path(from, to);
  if (path.inside_host || use == NicUse::kFirst) return path.bytes_per_second;
  const int rails =
      std::min(nics_taken(from, from_devices, *path.from_nics), nics_taken(to, to_devices, *path.to_nics));
  double rate = path.bytes_per_second * rails;
  for (const int shared : path.shared)
    rate = std::min(rate, cluster_.shared_links[at(shared)].bytes_per_second);
  return rate;
}

const topology::Device& ClusterView::device(int host_index, int device) const {
  const auto& owner = host(host_index);
  if (device < 0 || at(device) >= owner.devices.size())
    fail(Cause::kInvalidUsage, "host {} has {} devices, so there is no device {}; they count from 0",
         owner.name, owner.devices.size(), device);
  return owner.devices[at(device)];
}

double ClusterView::flops_per_second(int host_index, int index) const {
  const double speed = device(host_index, index).flops_per_second;
  if (speed <= 0)
    fail(Cause::kInvalidUsage,
         "{} does not say how fast device {} of host {} is (flops_per_second); measure it "
         "(tombolo "
         "probe) or declare it",
         cluster_.source, index, host(host_index).name);
  return speed;
}

double ClusterView::fp8_speedup(int host_index, int index) const {
  const topology::Device& one = device(host_index, index);
  const auto [entry, added] = peaks_.try_emplace(one.name);
  Peaks& peaks = entry->second;
  if (added) {
    const topology::Library library = topology::Library::load();
    if (const auto known = library.device_names.find(one.name)) {
      const topology::LibraryDevice& found = library.devices[*known];
      peaks = {found.peak("fp8"), found.peak(found.usual_dtype())};
    }
  }
  if (peaks.fp8 <= 0)
    fail(Cause::kInvalidUsage,
         "the library has no fp8 peak of device {} of host {} ({}), so products in fp8 cannot be timed; plan "
         "in "
         "bf16, or without that device",
         index, host(host_index).name, one.name);
  if (flops_per_second(host_index, index) > peaks.usual)
    fail(Cause::kInvalidUsage,
         "{}: device {} of host {} ({}) attains {:.4g} FLOP/s, more than its peak of {:.4g} without fp8; a "
         "plan in "
         "fp8 needs what it attains in bf16",
         cluster_.source, index, host(host_index).name, one.name, one.flops_per_second, peaks.usual);
  return peaks.fp8 / peaks.usual;
}

double ClusterView::memory_speed(int host_index, int index) const {
  return device(host_index, index).memory_bytes_per_second;
}

const std::vector<std::vector<int>>& ClusterView::device_nics(int host_index,
                                                              const std::vector<int>& nics) const {
  const auto [entry, added] = device_nics_.try_emplace({host_index, nics});
  if (added) entry->second = nics_of_devices(host(host_index), nics);
  return entry->second;
}

}  // namespace tombolo::planner
