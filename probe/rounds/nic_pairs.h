// The pairs of NICs over which two hosts can reach each other. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "topology/files/cluster_file.h"

namespace tombolo::probe {

/// Whether the NIC is usable and on the fabric of that kind and name.
bool joins(const topology::Nic& nic, topology::NicKind kind, const std::string& fabric);

/// Returns pairs of indices into the two hosts' NICs: usable NICs with an address, on one fabric and of equal
/// kind; the best kind first.
std::vector<std::pair<std::size_t, std::size_t>> nic_pairs(const topology::Host& left,
                                                           const topology::Host& right);

}  // namespace tombolo::probe
