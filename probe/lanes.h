// What is measured between two hosts: the pairs of NICs that can reach each other. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "topology/files/cluster_file.h"

namespace tombolo::probe {

/// Whether bytes of one fabric can go over a NIC.
bool joins(const topology::Nic& nic, topology::NicKind kind, const std::string& fabric);

/// Indices into the two hosts' NICs, which both have an address and lie on one fabric of equal kind; best
/// kind first.
std::vector<std::pair<std::size_t, std::size_t>> lanes(const topology::Host& left,
                                                       const topology::Host& right);

}  // namespace tombolo::probe
