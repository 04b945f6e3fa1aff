// Hierarchical clustering: which of several points are near each other, by a matrix of distances. Pure.
#pragma once

#include <cstddef>
#include <vector>

namespace tombolo::probe {

/// `close` points are nearer to each other, by a factor of kMarkedly, than to any other group. The others are
/// points among which no such group was found: they are as far from each other as from the rest.
struct NearGroup {
  std::vector<std::size_t> members;  ///< in rising order
  bool close = true;

  friend bool operator==(const NearGroup&, const NearGroup&) = default;
};

/// Points that are this many times as far belong to another group. Equal links of one network differ by less.
inline constexpr double kMarkedly = 2;

/// `distance`: n x n, > 0 off the diagonal; the mean of both directions counts. Agglomerative clustering by
/// the geometric mean (average linkage of logarithms), cut where a merge is kMarkedly farther than merges
/// below it, and again inside each part. Groups in the order of their first members; one for equal distances.
std::vector<NearGroup> near_groups(const std::vector<std::vector<double>>& distance);

}  // namespace tombolo::probe
