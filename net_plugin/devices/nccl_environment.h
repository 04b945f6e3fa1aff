// What NCCL's own variables say of NICs, sockets and RDMA. A job that sets them for NCCL's networks means the
// plugin too, so the plugin honours them in NCCL's syntax; a TOMBOLO_* variable of the same matter comes
// first. NCCL puts the lines of its configuration files into the environment before it loads a plugin.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/nic.h"
#include "transport/rdma/options.h"

namespace tombolo::net_plugin {

/// A list of NICs as in NCCL_SOCKET_IFNAME and NCCL_IB_HCA: an optional "^" (all but these), then an optional
/// "=" (whole names; otherwise beginnings of names), then a comma list of NAME[:PORT[:RAIL[:PLANE]]].
struct NicFilter {
  struct Entry {
    std::string name;
    int port = -1, rail = -1, plane = -1;  ///< -1: not said

    friend bool operator==(const Entry&, const Entry&) = default;
  };
  bool exclude = false;
  bool exact = false;
  std::vector<Entry> entries;

  /// Never fails: as in NCCL, entries without a name are skipped, and what is no number counts as 0.
  static NicFilter parse(std::string_view text);
  /// The first entry that matches; null where none does. A port of -1 matches every port.
  const Entry* find(std::string_view name, int port = -1) const noexcept;
  /// Whether the filter leaves the NIC in. A list without entries matches everything, and "^" alone nothing.
  bool takes(std::string_view name, int port = -1) const noexcept;
};

/// A filter and where it is from.
struct NamedFilter {
  std::string variable, value;
  NicFilter filter;
};

enum class SocketFamily { kAny, kIpv4, kIpv6 };

/// A variable that was set, and what came of it: "its NICs alone carry TCP", "not looked at: ... is set".
struct SeenVariable {
  std::string name, value, effect;
};

struct NcclEnvironment {
  std::optional<NamedFilter> all;      ///< TOMBOLO_NET_NICS: concerns every NIC, by interface or RDMA device
  std::optional<NamedFilter> sockets;  ///< NCCL_SOCKET_IFNAME: concerns NICs that carry TCP, by interface
  std::optional<NamedFilter> rdma;     ///< NCCL_IB_HCA: concerns RDMA NICs, by RDMA device and port
  SocketFamily family = SocketFamily::kAny;  ///< NCCL_SOCKET_FAMILY
  bool rdma_off = false;                     ///< NCCL_IB_DISABLE
  /// NCCL_IB_GID_INDEX, _TC, _SL, _TIMEOUT and _RETRY_CNT
  std::optional<int> gid_index, traffic_class, service_level, timeout, retries;
  std::vector<SeenVariable> seen;  ///< every variable above that is set, in a fixed order

  /// Gives a variable's value, or null where it is not set.
  using Lookup = std::function<const char*(const char* name)>;
  /// Throws kInvalidUsage for a number that RDMA cannot have, naming variable, value and range. Pure.
  static NcclEnvironment read(const Lookup& lookup);
  /// From this process's environment.
  static NcclEnvironment of_process();

  /// Sets `usable` (and the reason) of a host's NICs, and removes addresses of the other family. `nics` are
  /// all NICs that detection found, or those of a cluster file. A TCP NIC that detection would not use by
  /// default, such as a veth or loopback, is used where a filter names it and it has an address. Throws
  /// kInvalidUsage where a filter leaves none of the NICs that it concerns, naming variable, value and these
  /// NICs; on a host that has no such NIC the filter says nothing. Pure.
  void apply(std::vector<topology::Nic>& nics) const;
  void apply(transport::RdmaOptions& options) const noexcept;
  /// The entry of NCCL_IB_HCA or TOMBOLO_NET_NICS that names the NIC; null where none does.
  const NicFilter::Entry* entry_of(const topology::Nic& nic) const noexcept;
};

}  // namespace tombolo::net_plugin
