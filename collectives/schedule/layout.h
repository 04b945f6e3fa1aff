// Where the ranks are, as far as algorithms care.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "collectives/schedule/tuning.h"

namespace tombolo::collectives {

/// Immutable. The same on every rank but for `rank` and `position`.
struct Layout {
  int rank = 0;
  int size = 1;
  /// Ranks by cluster, then host, then rank (clusters and hosts in the order of their lowest ranks):
  /// neighbours here are near each other, whatever order the launcher chose.
  std::vector<int> order;
  int position = 0;                        ///< of this rank in `order`
  std::vector<std::vector<int>> clusters;  ///< ranks, in the order of `order`
  int cluster = 0;                         ///< this rank's, in `clusters`
  int index = 0;                           ///< of this rank in its cluster

  struct Place {
    std::string host, cluster;
  };
  static Layout make(int rank, const std::vector<Place>& places);

  /// The rank at a position, counted around the ring.
  int at(int where) const noexcept { return order[static_cast<std::size_t>(((where % size) + size) % size)]; }
};

/// What a collective is asked to do. Sizes in elements, unless named bytes.
struct Problem {
  std::size_t count = 0;
  std::size_t element_bytes = 1;
  bool average = false;
  int root = 0;
};

/// Elements [begin, end).
struct Interval {
  std::size_t begin = 0, end = 0;
  constexpr std::size_t count() const noexcept { return end - begin; }
};

/// Part `index` of `parts` nearly equal ones.
constexpr Interval part_of(Interval whole, std::size_t index, std::size_t parts) noexcept {
  // Quotient and remainder apart: count * index could overflow.
  const std::size_t quotient = whole.count() / parts, rest = whole.count() % parts;
  const auto border = [&](std::size_t i) { return whole.begin + quotient * i + (i < rest ? i : rest); };
  return {border(index), border(index + 1)};
}

/// How many pieces of at most `piece_bytes` hold `count` elements; at least 1.
constexpr std::size_t pieces_of(std::size_t count, std::size_t element_bytes,
                                std::size_t piece_bytes) noexcept {
  const std::size_t most = piece_bytes / element_bytes > 0 ? piece_bytes / element_bytes : 1;
  return count <= most ? 1 : (count + most - 1) / most;
}

}  // namespace tombolo::collectives
