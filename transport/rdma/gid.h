// The choice among a port's addresses (GIDs): which one its queue pairs use.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "topology/nic.h"

namespace tombolo::transport::rdma {

/// Pure. RoCE v2 before v1, since only v2 crosses routers; then the GID made of `address`, the NIC's own IP
/// address; then IPv4 before IPv6 before link-local ones; then the lowest index. InfiniBand takes the first.
/// `wanted` >= 0 is taken as it is (TOMBOLO_RDMA_GID_INDEX). Throws kUnsupported where the table has no such
/// entry.
const topology::Gid& choose_gid(std::span<const topology::Gid> table, topology::NicKind kind,
                                const std::string& address, int wanted);

}  // namespace tombolo::transport::rdma
