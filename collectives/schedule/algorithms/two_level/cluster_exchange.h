// How the owners of the same elements, one in each cluster, sum them up over the links between the clusters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/schedule/collective.h"
#include "collectives/schedule/partition.h"
#include "collectives/schedule/rank_map.h"
#include "collectives/schedule/schedule.h"

namespace tombolo::collectives {

/// Writes one rank's part of such exchanges into a schedule, in steps: two clusters swap in one. Of more,
/// each sums up its part of the elements for all: sums go straight to the cluster whose part they are, and
/// what is complete straight to all others, in two steps. How large a cluster's part is says
/// RankMap::cluster_weights. Who has several under way takes the steps of different ones in turns, since
/// messages between two ranks come in order, and a long link would have only one of them under way.
class ClusterExchange {
 public:
  /// Elements with their owners, by cluster.
  struct Cut {
    Interval elements;
    std::vector<int> owners;
    Piece source;  ///< the own cluster's sum of element i is i elements after it
  };

  /// The arguments must outlive it. At most `most_cuts` cuts of at most so many elements take a step in a
  /// turn, and so many `turns` are on their way at a time.
  ClusterExchange(ScheduleBuilder& builder, const Problem& problem, Compression compression,
                  const RankMap& ranks, std::size_t most_cuts, std::size_t longest_cut, std::size_t turns);

  std::size_t steps() const noexcept { return clusters_ <= 2 ? 1 : 2; }
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
  std::size_t longest_message(std::size_t longest_cut) const noexcept;
  Piece output(std::size_t element) const noexcept {
    return Piece{Buffer::kOutput, 0} + element * problem_.element_bytes;
  }
  Piece source_at(const Cut& cut, std::size_t element) const noexcept {
    return cut.source + element * problem_.element_bytes;
  }
  /// What that cluster sums up of the cut.
  Interval shard(const Cut& cut, std::size_t cluster) const noexcept;
  std::size_t after(std::size_t distance) const noexcept { return (cluster_ + distance) % clusters_; }
  void encode(Piece target, Piece from, Interval elements);
  void swap(Cut& cut);
  void reduce(const Cut& cut);
  void gather(const Cut& cut);

  ScheduleBuilder& builder_;
  const Problem& problem_;
  Compression compression_;
  const std::vector<std::uint32_t>& weights_;  // by cluster; empty: equal
  std::size_t cluster_, clusters_, most_cuts_;
  ScratchRing slots_;
};

}  // namespace tombolo::collectives
