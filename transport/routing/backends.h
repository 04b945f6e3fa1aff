// The transports of this build, and which of them a router can use.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "transport/backend.h"
#include "transport/routing/router.h"

namespace tombolo::transport {

struct Backends {
  std::vector<std::shared_ptr<Backend>> usable;
  /// For each of the host's real RDMA NICs, by name: why neither rdma nor ucx can use it; empty where one
  /// can.
  std::map<std::string, std::string> rdma_problems;
};

/// Makes the backends that the options allow. `idle_timeout` is that of the options, with its default filled
/// in. Throws kInvalidUsage for options that are out of range.
Backends make_backends(const RouterOptions& options, Duration idle_timeout);

}  // namespace tombolo::transport
