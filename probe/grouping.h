// Which of several points are near each other: the islands in a matrix of distances. Pure.
#pragma once

#include <cstddef>
#include <vector>

namespace tombolo::probe {

/// Nearer to each other than `kMarkedly` times to any other group; or, not `close`, those among which no such
/// group could be found: they are as far from each other as from the others.
struct NearGroup {
  std::vector<std::size_t> members;  ///< in rising order
  bool close = true;

  friend bool operator==(const NearGroup&, const NearGroup&) = default;
};

/// So many times as far, and it is another island: more than equal links of one network differ.
inline constexpr double kMarkedly = 2;

/// `distance`: n x n, > 0 off the diagonal; the mean of both directions counts. Agglomerative clustering by
/// the geometric mean (average linkage of logarithms), cut where a merge is kMarkedly farther than merges
/// below it, and again inside each part. Groups in the order of their first members; one for equal distances.
std::vector<NearGroup> near_groups(const std::vector<std::vector<double>>& distance);

}  // namespace tombolo::probe
