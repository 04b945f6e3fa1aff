// The cluster file: the hosts with their NICs and devices, how they are connected, and what rate each link
// attains. Every other room reads it. docs/cluster-file.md documents its JSON format. The folder files/ owns
// the files that people and programs write about clusters: cluster file, fleet file, library.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/parameter.h"
#include "topology/device.h"
#include "topology/nic.h"

namespace tombolo::topology {

struct Host {
  std::string name;
  std::string cluster;          ///< name of the cluster it belongs to, "A"
  std::vector<Nic> nics;        ///< usable ones, best kind first
  std::vector<Device> devices;  ///< one per rank that the host takes
  /// Attained between two devices of the host, one direction (NVLink, PCIe, shared memory); 0 = unknown
  double device_bytes_per_second = 0;
};

/// One direction between two NICs, as measured (or declared, measured = false).
struct Link {
  std::string from_host, from_nic, to_host, to_nic;
  double bytes_per_second = 0;
  double latency_seconds = 0;
  bool measured = false;
};

/// The rate that any two NICs on a fabric attain, one direction, where no link says otherwise; never more
/// than either NIC's nominal rate. An entry with clusters holds only from NICs of the first to NICs of the
/// second, and takes precedence over an entry without.
struct FabricDefault {
  std::string fabric;                    ///< empty = the one that all plain Ethernet shares
  std::string from_cluster, to_cluster;  ///< both or neither
  double bytes_per_second = 0;
  double latency_seconds = 0;
};

struct NicName {
  std::string host, nic;

  friend bool operator==(const NicName&, const NicName&) = default;
};

/// The rate that all transfers from any of `from` to any of `to` attain together, one direction: an uplink,
/// or a port behind several NICs.
struct SharedLink {
  std::string name;  ///< unique; shown to the user
  std::vector<NicName> from, to;
  double bytes_per_second = 0;

  /// Whether a transfer from the first NIC to the second crosses it; transfers inside a host cross none.
  bool carries(std::string_view from_host, std::string_view from_nic, std::string_view to_host,
               std::string_view to_nic) const noexcept;
};

/// Hosts that in fact share one machine's processors (an emulation): `cores` cores serve all devices of
/// `hosts`, and a device alone attains at most one core's speed.
struct SharedProcessor {
  std::vector<std::string> hosts;
  double cores = 0;
};

struct ClusterFile {
  static constexpr int kVersion = 1;

  std::string source = "the cluster file";  ///< its path, for messages; not written
  bool emulated = false;
  std::string note;  ///< shown to the user: "emulated on one machine"
  std::vector<Host> hosts;
  std::vector<Link> links;
  std::vector<FabricDefault> fabrics;
  std::vector<SharedLink> shared_links;
  std::optional<SharedProcessor> shared_processor;
  /// Pairs of fabrics of one kind that cannot reach each other.
  std::vector<std::pair<std::string, std::string>> unreachable;
  /// "rdma": a connection inside a cluster that would fall back to TCP is an error (as TOMBOLO_REQUIRE).
  std::string require;

  /// Throws kInvalidUsage naming file, line and field: unknown or missing fields, duplicate hosts or NICs,
  /// links to NICs that do not exist, values that are out of range or contradict each other, a version that
  /// this build does not read. A device with a "count" becomes that many devices.
  static ClusterFile load(const std::string& path);
  static ClusterFile parse(const JsonDocument& document);
  Json to_json() const;
  /// Writes the file; a reader never sees half of it. Throws kSystem.
  void save(const std::string& path) const;

  /// The host of that name, owned by this object; null where there is none.
  const Host* find_host(std::string_view name) const noexcept;
  /// Cluster names in order of first appearance.
  std::vector<std::string> clusters() const;
};

/// TOMBOLO_CLUSTER: path of a cluster file that overrides detection.
extern const Parameter kClusterParameter;
/// TOMBOLO_HOST: this process's host name in the cluster file; default the machine's host name.
extern const Parameter kHostParameter;

/// The cluster file of TOMBOLO_CLUSTER, or nothing where it is unset.
std::optional<ClusterFile> cluster_file_from_environment();

/// The environment parameters of this room.
const std::vector<const Parameter*>& topology_parameters();

}  // namespace tombolo::topology
