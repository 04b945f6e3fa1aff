// The lines that ip and tc are fed to build an emulated network. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/emulation/spec.h"

namespace tombolo::emulation {

struct NetworkScript {
  /// For `ip -batch` and `tc -batch` in the namespace that holds the bridges.
  std::string hub_ip, hub_tc;
  /// Likewise inside each host, by host index.
  std::vector<std::string> host_ip, host_tc;
};

/// `namespace_paths[h]` is a path by which ip, running in the hub, can open host h's network namespace.
NetworkScript make_network_script(const Spec& spec, const std::vector<std::string>& namespace_paths);

/// Names of a link's two interfaces in the hub. Where it is relayed they must be there before the script
/// runs.
std::pair<std::string, std::string> link_interfaces(std::size_t link);

/// Bytes of a token bucket's burst for a rate. The bucket lets this much pass at once after a pause, so the
/// smaller the truer; but it must hold the largest packet that the kernel hands down whole.
unsigned burst_bytes(double bits_per_second) noexcept;

}  // namespace tombolo::emulation
