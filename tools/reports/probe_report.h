// The results of tombolo probe on islands and on links under load, as text and as JSON. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "probe/probe.h"

namespace tombolo::tools {

/// A line per island with its clusters, then `differences` (probe::compare_islands); then a line per load
/// between clusters, as "A to B: alone 1 Gbit/s, 4 pairs at once 1 Gbit/s in all: shared", and one per port
/// that NICs share. Empty where there are none of these.
std::string describe_structure(const topology::ClusterFile& cluster, const probe::ProbedLinks& measured,
                               const std::vector<std::string>& differences);

/// The same as JSON: adds "islands", "differences" and "loads" to `json`.
void add_structure(Json& json, const topology::ClusterFile& cluster, const probe::ProbedLinks& measured,
                   const std::vector<std::string>& differences);

}  // namespace tombolo::tools
