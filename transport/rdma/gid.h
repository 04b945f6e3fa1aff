// The choice among a port's addresses (GIDs): which one its queue pairs use.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "topology/nic.h"

namespace tombolo::transport::rdma {

/// Chooses a GID; a pure function. It prefers RoCE v2 to v1, because only v2 crosses routers; then the GID
/// made of `address`, the NIC's own IP address; then IPv4 to IPv6 to link-local ones; then the lowest index.
/// On InfiniBand it takes the first. `wanted` >= 0 (TOMBOLO_RDMA_GID_INDEX) is the index to take in any case.
/// Throws kUnsupported where the table has no such entry.
const topology::Gid& choose_gid(std::span<const topology::Gid> table, topology::NicKind kind,
                                const std::string& address, int wanted);

}  // namespace tombolo::transport::rdma
