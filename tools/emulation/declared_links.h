// What an emulation says of the links between its switches, as a cluster file says it.
#pragma once

#include "tools/emulation/spec.h"
#include "topology/files/cluster_file.h"

namespace tombolo::emulation {

/// `cluster`, which is that of the spec, with each link as one that all NICs of its one side share on the way
/// to those of its other side, and the rates and latencies of the pairs of NICs between which there are
/// links. An emulation's own cluster file leaves them out, since jobs are to find them out. Pure.
topology::ClusterFile with_declared_links(const Spec& spec, topology::ClusterFile cluster);

}  // namespace tombolo::emulation
