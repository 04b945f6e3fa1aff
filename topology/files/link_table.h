// The rate of a pair of NICs: that of its own link if there is one, else its fabric's default.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "topology/files/cluster_file.h"

namespace tombolo::topology {

/// One direction between two NICs.
struct Attained {
  double bytes_per_second = 0;
  double latency_seconds = 0;
  bool measured = false;  ///< by the probe; false: declared, or a fabric's default
};

/// Answers in constant time. Refers to the cluster file, which must outlive this and not change. Thread-safe.
class LinkTable {
 public:
  explicit LinkTable(const ClusterFile& cluster);

  /// Looks up by index into ClusterFile::hosts and Host::nics. Nothing where neither a link nor a default of
  /// the fabric of both NICs states the rate; between NICs of one host only a link can.
  std::optional<Attained> find(int from_host, int from_nic, int to_host, int to_nic) const;
  /// Looks up by name; nothing also where the cluster file has no such host or NIC.
  std::optional<Attained> find(std::string_view from_host, std::string_view from_nic,
                               std::string_view to_host, std::string_view to_nic) const;

  /// The most that any pair attains from (egress) or to (ingress) this NIC, with a NIC of another host, in
  /// bytes per second; 0 = unknown. The NIC itself can do at least that.
  double egress(int host, int nic) const { return egress_[flat(host, nic)]; }
  double ingress(int host, int nic) const { return ingress_[flat(host, nic)]; }

  /// Index into ClusterFile::hosts.
  std::optional<int> host_index(std::string_view name) const;
  /// Index into Host::nics.
  std::optional<int> nic_index(int host, std::string_view name) const;

 private:
  class Numbers;
  // A NIC's index among all NICs of all hosts.
  std::size_t flat(int host, int nic) const {
    return first_nic_[static_cast<std::size_t>(host)] + static_cast<std::size_t>(nic);
  }
  const Nic& nic(int host, int nic) const {
    return cluster_.hosts[static_cast<std::size_t>(host)].nics[static_cast<std::size_t>(nic)];
  }
  void add_links();
  void add_fabrics(Numbers& fabrics, Numbers& clusters);

  const ClusterFile& cluster_;
  std::unordered_map<std::string_view, int> hosts_;
  std::vector<std::size_t> first_nic_;                    // by host
  std::vector<std::uint32_t> fabric_, cluster_of_;        // by NIC: numbers for the names
  std::unordered_map<std::uint64_t, const Link*> links_;  // by both NICs' indices
  std::unordered_map<std::uint64_t, const FabricDefault*> defaults_;
  std::vector<double> egress_, ingress_;  // by NIC
};

}  // namespace tombolo::topology
