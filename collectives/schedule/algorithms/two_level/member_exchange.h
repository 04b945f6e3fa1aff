// How ranks that are near each other sum up elements, each a part of them, and give these parts to all.
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/schedule/algorithms/two_level/cluster_grid.h"
#include "collectives/schedule/collective.h"
#include "collectives/schedule/partition.h"
#include "collectives/schedule/schedule.h"

namespace tombolo::collectives {

/// Writes one rank's part of such exchanges into a schedule of an all-reduce, whose output may hold what is
/// on its way. Sums are in a fixed order, so that the bits do not depend on who arrives first. A *place* of
/// an element i is a piece behind which it lies i elements further.
class MemberExchange {
 public:
  /// Ranks that have a part each, in their order.
  struct Sharers {
    std::vector<int> ranks;
    std::size_t own = 0;  ///< this rank's place
    std::size_t after(std::size_t distance) const { return (own + distance) % ranks.size(); }
    std::size_t before(std::size_t distance) const { return (own + ranks.size() - distance) % ranks.size(); }
  };

  /// The arguments must outlive it.
  MemberExchange(ScheduleBuilder& builder, const Problem& problem) : builder_(builder), problem_(problem) {}

  /// Sums up this rank's part of the elements over all. Returns the place of the sums; `source` is that of
  /// what is summed up. `slots` has a whole number of times as many as there are other sharers, each for a
  /// part.
  Piece reduce(const Sharers& all, Interval elements, Piece source, ScratchRing& slots);
  /// Gives every part of the elements to all.
  void gather(const Sharers& all, Interval elements);

  /// The same among the ranks of a host, each of whose columns gets the sums of its group. Spare ranks sum up
  /// parts of the groups for these. `slots` are for a part of a group each.
  Piece reduce_on_host(const ClusterGrid& grid, std::size_t member, Interval elements, Piece source,
                       ScratchRing& slots);
  void gather_on_host(const ClusterGrid& grid, std::size_t member, Interval elements);

 private:
  std::size_t bytes(Interval interval) const noexcept { return interval.count() * problem_.element_bytes; }
  Piece at(Piece place, std::size_t element) const noexcept {
    return place + element * problem_.element_bytes;
  }
  Piece output(std::size_t element) const noexcept { return at({Buffer::kOutput, 0}, element); }
  /// The elements of so many parts one behind the other around the circle, the one of the sharer `first`
  /// first: two intervals, of which the second may have none.
  struct Around {
    Interval parts[2];  ///< numbers of parts
    Interval elements[2];
  };
  static Around around(Interval elements, std::size_t first, std::size_t count, std::size_t sharers) noexcept;

  void send_parts(int peer, const Around& parts, Piece source);
  Piece reduce_pairwise(const Sharers& all, Interval elements, Piece source, ScratchRing& slots);
  Piece reduce_in_rounds(const Sharers& all, Interval elements, Piece source, ScratchRing& slots);
  void gather_pairwise(const Sharers& all, Interval elements);
  void gather_in_rounds(const Sharers& all, Interval elements);

  ScheduleBuilder& builder_;
  const Problem& problem_;
};

}  // namespace tombolo::collectives
