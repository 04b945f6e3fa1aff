// Decides which hosts measure together in which round. Pure.
#pragma once

#include <utility>
#include <vector>

namespace tombolo::transport::measure {

/// A round-robin tournament: rounds of disjoint pairs in which each two of 0..n-1 are paired exactly once
/// (circle method).
std::vector<std::vector<std::pair<int, int>>> round_robin(int participants);

}  // namespace tombolo::transport::measure
