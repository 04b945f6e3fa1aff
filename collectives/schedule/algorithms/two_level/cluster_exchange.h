// How the owners of the same elements, one in each cluster, sum them up over the links between the clusters.
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/schedule/collective.h"
#include "collectives/schedule/partition.h"
#include "collectives/schedule/schedule.h"

namespace tombolo::collectives {

/// Writes one rank's part of such exchanges into a schedule, in steps: two clusters swap in one, more send
/// around a ring in 2 (k - 1). Who has several under way takes the steps of different ones in turns, since
/// messages between two ranks come in order, and a long link would have only one of them under way.
class ClusterExchange {
 public:
  /// Elements with their owners, by cluster.
  struct Cut {
    Interval elements;
    std::vector<int> owners;
    Piece source;      ///< the own cluster's sum of element i is i elements after it
    Piece going = {};  ///< the encoded form that is passed on, where there is one
  };

  /// The arguments must outlive it. `cluster` is this rank's, of `clusters`. At most `most_cuts` cuts of at
  /// most so many elements take a step in a turn, and so many `turns` are on their way at a time.
  ClusterExchange(ScheduleBuilder& builder, const Problem& problem, Compression compression, int cluster,
                  std::size_t clusters, std::size_t most_cuts, std::size_t longest_cut, std::size_t turns);

  std::size_t steps() const noexcept { return clusters_ <= 2 ? 1 : 2 * (clusters_ - 1); }
  /// Step `index` of the cut's exchange; after the last one the output has its elements, divided for an
  /// average.
  void take_step(Cut& cut, std::size_t index);

 private:
  bool compressed() const noexcept { return compression_ != Compression::kNone; }
  std::size_t bytes(Interval interval) const noexcept { return interval.count() * problem_.element_bytes; }
  std::size_t encoded(Interval interval) const noexcept {
    return compressed() ? encoded_bytes(compression_, interval.count()) : bytes(interval);
  }
  std::size_t slots_of_a_turn() const noexcept;
  Piece output(std::size_t element) const noexcept {
    return Piece{Buffer::kOutput, 0} + element * problem_.element_bytes;
  }
  Piece source_at(const Cut& cut, std::size_t element) const noexcept {
    return cut.source + element * problem_.element_bytes;
  }
  Interval shard(const Cut& cut, std::size_t where) const noexcept {
    return part_of(cut.elements, where % clusters_, clusters_);
  }
  void encode(Piece target, Piece from, Interval elements);
  void swap(Cut& cut);
  void reduce(Cut& cut, std::size_t step);
  void gather(Cut& cut, std::size_t step);

  ScheduleBuilder& builder_;
  const Problem& problem_;
  Compression compression_;
  std::size_t cluster_, clusters_, most_cuts_;
  ScratchRing slots_;
};

}  // namespace tombolo::collectives
