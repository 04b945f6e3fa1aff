// Hierarchical clustering: which of several points are near each other, by a matrix of distances. Pure.
#pragma once

#include <cstddef>
#include <vector>

namespace tombolo::probe {

/// `close` members are nearer to each other, by a factor of kMarkedly, than to any other group. Members that
/// are not `close` are the points left over, which are as far from each other as from the rest.
struct NearGroup {
  std::vector<std::size_t> members;  ///< indices of points, ascending
  bool close = true;

  friend bool operator==(const NearGroup&, const NearGroup&) = default;
};

/// Points that are this many times as far away belong to another group. Equal links of one network differ by
/// less.
inline constexpr double kMarkedly = 2;

/// Groups points by agglomerative clustering with the geometric mean (average linkage of logarithms). The
/// tree is cut where a merge is kMarkedly farther than merges below it, and again inside each part.
/// `distance` is n x n and > 0 off the diagonal; the mean of both directions counts. Returns the groups in
/// the order of their first members; a single one for equal distances.
std::vector<NearGroup> near_groups(const std::vector<std::vector<double>>& distance);

}  // namespace tombolo::probe
