// The cluster file as the planner needs it: hosts by index, and for each two of them the NICs that routing
// takes, with the attained speed of a pair.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "planner/model/framework.h"
#include "topology/files/cluster_file.h"
#include "topology/files/link_table.h"

namespace tombolo::planner {

/// Decides over which NICs two hosts communicate.
enum class Routing {
  kPerPeer,  ///< each connection over the best pair of NICs that its two ends share
  kShared,   ///< every connection over the best NIC kind that all ranks share
};

/// The path from one host to another, one direction.
struct Path {
  bool inside_host = false;        ///< no NIC is involved
  int from_nic = -1, to_nic = -1;  ///< index in the hosts' NIC lists; of the first pair, see below
  /// All NICs of which some pair is as good as the first, as indices in the hosts' lists, ascending; several
  /// where a host has rails. Owned by the view; null inside a host.
  const std::vector<int>* from_nics = nullptr;
  const std::vector<int>* to_nics = nullptr;
  topology::NicKind kind = topology::NicKind::kTcp;
  /// Of one pair of NICs. 0 inside a host whose rate is unknown; transfers then take no time
  double bytes_per_second = 0;
  double latency_seconds = 0;
  std::vector<int> shared;  ///< those of the cluster file's shared_links that it crosses, by index
};

/// Two hosts by index, in one direction.
struct HostPair {
  int from = 0, to = 0;
  friend bool operator==(const HostPair&, const HostPair&) = default;
  struct Hash {
    std::size_t operator()(const HostPair& pair) const noexcept {
      // Hosts are numbered from 0 and are fewer than 2^32, so no two pairs have the same hash.
      return static_cast<std::size_t>(pair.from) << 32U | static_cast<std::uint32_t>(pair.to);
    }
  };
};

/// Immutable once built; refers to the cluster file, which must outlive it.
class ClusterView {
 public:
  /// `routing` is "per-peer" or "shared". `hosts` are those that take part (by name; empty = all): "shared"
  /// uses the best kind by which all of these reach each other. Throws kInvalidUsage on an unknown routing or
  /// host.
  ClusterView(const topology::ClusterFile& cluster, std::string_view routing,
              const std::vector<std::string>& hosts);

  const topology::ClusterFile& cluster() const noexcept { return cluster_; }
  const topology::Host& host(int index) const { return cluster_.hosts[static_cast<std::size_t>(index)]; }
  /// The rates of all pairs of its NICs.
  const topology::LinkTable& links() const noexcept { return links_; }
  /// A device of a host. Throws kInvalidUsage where the host has no such device.
  const topology::Device& device(int host, int device) const;
  /// The index of a host. Throws kInvalidUsage listing the hosts that there are.
  int host_index(std::string_view name) const;
  /// The path that routing takes. Throws kInvalidUsage naming what the cluster file lacks: a pair of NICs
  /// that reach each other, or the link between them.
  const Path& path(int from, int to) const;
  /// Whether path() has an answer.
  bool linked(int from, int to) const;
  /// The kind of NIC that `path` would choose; nothing where no NICs reach each other. Needs no link.
  std::optional<topology::NicKind> kind_between(int from, int to) const;
  /// Bytes per second that so many devices of one host attain together to so many of another, in equal parts
  /// of each host's devices. That of one pair of NICs where the software takes only one.
  double together(int from, int to, int from_devices, int to_devices, NicUse use) const;
  /// Of `nics`, how many so many devices of the host take.
  int nics_taken(int host, int devices, const std::vector<int>& nics) const;
  /// The link between two NICs, nothing where the cluster file does not say what it attains.
  std::optional<topology::Attained> link(int from_host, int from_nic, int to_host, int to_nic) const {
    return links_.find(from_host, from_nic, to_host, to_nic);
  }
  /// The cluster file's shared links that a transfer between two NICs crosses, by index.
  std::vector<int> shared_between(int from_host, int from_nic, int to_host, int to_nic) const;
  /// All NICs of which some pair is as good as the one that routing takes, as indices in the hosts' lists;
  /// nothing where none reach each other. Needs no link. Owned by the view.
  struct NicsBetween {
    const std::vector<int>*from, *to;
  };
  std::optional<NicsBetween> nics_between(int from, int to) const;
  /// nics_of_devices() (planner/plan/rails.h) of a host, by device. Owned by the view.
  const std::vector<std::vector<int>>& device_nics(int host, const std::vector<int>& nics) const;
  /// The rate of the fastest of a NIC's links in one direction, bytes per second: the NIC itself attains at
  /// least that.
  double egress(int host, int nic) const { return links_.egress(host, nic); }
  double ingress(int host, int nic) const { return links_.ingress(host, nic); }
  /// Attained FLOP/s. Throws kInvalidUsage where it is unknown, saying how to find out.
  double flops_per_second(int host, int device) const;
  /// How many times as fast a device multiplies in fp8 as at flops_per_second(): by the library's peaks of
  /// the two types, of which the same share is taken to be attained. Throws kInvalidUsage where the library
  /// does not know the device, where it has no fp8, and where flops_per_second() is beyond its peak without.
  double fp8_speedup(int host, int device) const;
  /// Attained bytes/s of a device's memory; 0 = unknown.
  double memory_speed(int host, int device) const;
  /// Whether the host's devices run on the cluster file's shared processor.
  bool shares_processor(int host) const { return shares_processor_[static_cast<std::size_t>(host)]; }
  Routing routing() const noexcept { return routing_; }
  /// The kind that all hosts taking part share; only with "shared" routing.
  std::optional<topology::NicKind> shared_kind() const noexcept { return shared_kind_; }

 private:
  /// The NICs at the two ends of a shared link, by index of host and NIC.
  struct SharedEnds {
    std::set<std::pair<int, int>> from, to;
  };
  /// The NICs that routing takes between two hosts; the first pair, and all that are as good.
  struct Choice {
    int from = -1, to = -1;
    topology::NicKind kind = topology::NicKind::kTcp;
    std::vector<int> all_from, all_to;
  };
  /// Null where no NICs reach each other.
  const Choice* choose(int from, int to) const;
  std::optional<Choice> best_choice(int from, int to) const;
  std::set<std::pair<int, int>> ends_of(const std::vector<topology::NicName>& names) const;
  bool reachable(const topology::Nic& from, const topology::Nic& to) const;
  void find_shared_kind(const std::vector<int>& hosts);

  const topology::ClusterFile& cluster_;
  Routing routing_;
  std::optional<topology::NicKind> shared_kind_;
  std::vector<bool> shares_processor_;
  std::vector<int> nics_alike_;  // by host: equal for hosts whose NICs are, name and place aside
  mutable std::unordered_map<HostPair, std::optional<Choice>, HostPair::Hash> choices_;  // of those
  topology::LinkTable links_;
  std::vector<SharedEnds> shared_;                                    // by shared link
  mutable std::unordered_map<HostPair, Path, HostPair::Hash> paths_;  // found so far
  mutable std::map<std::pair<int, std::vector<int>>, std::vector<std::vector<int>>> device_nics_;
  /// The library's peaks of a device in fp8, and in the type that training usually takes; 0 = unknown.
  struct Peaks {
    double fp8 = 0, usual = 0;
  };
  mutable std::map<std::string, Peaks> peaks_;  // by name, of those that were asked for
};

}  // namespace tombolo::planner
