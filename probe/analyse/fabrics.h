// Separates fabrics that have one name but do not reach each other. Pure.
#pragma once

#include <string>
#include <vector>

#include "topology/files/cluster_file.h"

namespace tombolo::probe {

/// Two NICs of one fabric that could not be measured.
struct LinkFailure {
  std::string from_host, from_nic, to_host, to_nic;
  std::string fabric;
  std::string reason;  ///< as the rank that failed reported it
};

/// Where the hosts of a fabric fall into groups between which every pair failed, they are several fabrics
/// under one name: gives each group a fabric name of its own and declares the groups unreachable from each
/// other. The fabric without a name, which all TCP NICs share, stays. Returns a sentence for each fabric that
/// was separated; `unexplained` gets one for each failure that remains.
std::vector<std::string> separate_fabrics(topology::ClusterFile& cluster,
                                          const std::vector<LinkFailure>& failures,
                                          std::vector<std::string>& unexplained);

}  // namespace tombolo::probe
