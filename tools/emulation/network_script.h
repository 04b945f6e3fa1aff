// The input for ip and tc that builds an emulated network. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/emulation/spec.h"

namespace tombolo::emulation {

struct NetworkScript {
  /// Input for `ip -batch` and `tc -batch` in the namespace that holds the bridges.
  std::string hub_ip, hub_tc;
  /// Input for the same tools inside each host, by host index.
  std::vector<std::string> host_ip, host_tc;
};

/// `namespace_paths[h]` is a path by which ip, running in the hub, can open host h's network namespace.
NetworkScript make_network_script(const Spec& spec, const std::vector<std::string>& namespace_paths);

/// The names of a link's two interfaces in the hub. Those of a relayed link must exist before the script
/// runs.
std::pair<std::string, std::string> link_interfaces(std::size_t link);

/// The burst of a token bucket for a rate, in bytes. After a pause the bucket lets this much pass at once, so
/// a smaller one is closer to a real link; but it must hold the largest packet that the kernel hands down
/// whole.
unsigned burst_bytes(double bits_per_second) noexcept;

}  // namespace tombolo::emulation
