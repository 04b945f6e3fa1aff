// Planning a large cluster by a part of it: where many hosts are alike, one part is planned and repeated.
#pragma once

#include <optional>
#include <vector>

#include "planner/search/layout.h"

namespace tombolo::planner {

/// A cluster as `copies` equal parts, each with the same number of hosts of each class. Hosts of one class
/// are in one cluster and have alike devices and NICs.
struct Condensed {
  int copies = 1;
  std::vector<LauncherSlot> slots;  ///< of the first part
  Job job;                          ///< of the first part, with its share of the batch
  /// for each rank of the first part its counterparts: launcher ranks, one per copy
  std::vector<std::vector<int>> twins;
};

/// The fewest copies whose part has at most `most_ranks` ranks; nothing where hosts, batch or a fixed number
/// of replicas do not divide.
std::optional<Condensed> condensed(const SearchContext& context, const Job& job, std::size_t most_ranks);

/// The layout of all parts: that of the first, with `copies` times the replicas.
Layout repeated(const Layout& part, const Condensed& condensed);

}  // namespace tombolo::planner
