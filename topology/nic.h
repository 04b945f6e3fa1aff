// A NIC: the facts that detection finds and that the cluster file states.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tombolo::topology {

/// What carries bytes on a NIC. The order is the order of preference, best first.
enum class NicKind { kInfiniBand, kRoce, kIwarp, kTcp };

/// "infiniband", "roce", "iwarp", "tcp": as written in JSON.
std::string_view nic_kind_name(NicKind kind) noexcept;
/// The kind of that name; nothing where there is none.
std::optional<NicKind> nic_kind_from_name(std::string_view name) noexcept;
/// True for every kind except TCP.
bool is_rdma(NicKind kind) noexcept;

/// What an interface is. Only physical ones (and those that a cluster file names) carry traffic by default.
enum class NicRole {
  kPhysical,
  kVirtualFunction,
  kBond,
  kVlan,
  kVirtual,
  kContainerBridge,
  kTunnel,
  kLoopback
};
/// "physical", "virtual function", ...: as written in JSON.
std::string_view nic_role_name(NicRole role) noexcept;

enum class NicState { kUp, kDown, kUnknown };
/// "up", "down", "unknown": as written in JSON.
std::string_view nic_state_name(NicState state) noexcept;

struct Gid {
  int index = 0;
  std::string value;  ///< "fe80:0000:...": 8 groups of 4 hex digits
  std::string type;   ///< "IB/RoCE v1" or "RoCE v2", as the kernel words it
};

/// One network interface, one RDMA port, or both where they are the same hardware.
struct Nic {
  std::string name;         ///< interface name ("ens3f0"), or RDMA device/port ("mlx5_0/1") without one
  std::string rdma_device;  ///< "mlx5_0"; empty for plain Ethernet
  int rdma_port = 0;        ///< 1-based; 0 without RDMA
  NicKind kind = NicKind::kTcp;
  bool roce_v1 = false;
  bool roce_v2 = false;
  NicRole role = NicRole::kPhysical;
  NicState state = NicState::kUnknown;
  std::uint64_t rate_bits_per_second = 0;  ///< 0 = unknown
  double burst_bytes = 0;  ///< what a token bucket lets pass at once after a pause; 0 = none, or unknown
  int mtu = 0;             ///< bytes
  std::string driver;
  std::optional<int> numa_node;
  std::string pci_path;                ///< "/sys/devices/pci0000:17/.../0000:18:00.0"; empty for virtual NICs
  std::vector<std::string> addresses;  ///< IPv4 and IPv6 without prefix length, IPv4 first
  std::vector<std::string> networks;   ///< "10.2.0.0/24": reached without a router; no link-local ones
  std::vector<std::string>
      routes;  ///< reached through a router on this NIC; "0.0.0.0/0" is the default route
  std::vector<Gid> gids;
  std::string fabric;  ///< NICs of equal fabric reach each other; empty = the fabric every TCP NIC shares
  bool usable = true;
  std::string reason;     ///< why it is or is not usable, to be shown
  bool emulated = false;  ///< a cluster file declares the kind, but TCP carries the bytes
};

/// "fe80:0000:0000:0000" of an InfiniBand port's first GID; empty where there is none.
std::string subnet_prefix(const Nic& nic);

}  // namespace tombolo::topology
