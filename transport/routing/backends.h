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
  /// By name of each of the host's real RDMA NICs: why neither rdma nor ucx can use it; empty where one can.
  std::map<std::string, std::string> rdma_problems;
};

/// Makes those that the options allow. `idle_timeout`: of the options, resolved. Throws kInvalidUsage for
/// options that are out of range.
Backends make_backends(const RouterOptions& options, Duration idle_timeout);

}  // namespace tombolo::transport
