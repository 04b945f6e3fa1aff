// The machine as a picture, in the language of Graphviz.
#pragma once

#include <string>

#include "topology/detect.h"

namespace tombolo::topology {

/// A graph for `dot`: NUMA nodes with their host bridges, PCIe switches, GPUs and NICs, NVLinks, and the
/// fabrics that usable NICs lie on. NICs that are not used are drawn dashed where they are hardware.
std::string graphviz(const Machine& machine);

}  // namespace tombolo::topology
