// How the owners of the same elements, one in each cluster, sum them up over the links between the clusters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/schedule/collective.h"
#include "collectives/schedule/partition.h"
#include "collectives/schedule/rank_map.h"
#include "collectives/schedule/schedule.h"
#include "collectives/schedule/tuning.h"

namespace tombolo::collectives {

/// Writes one rank's part of such exchanges into a schedule, in steps. In *one way* each owner gives its
/// cluster's sums to all others, and sums up everything: so two clusters swap. Among more, each
/// sums up its part of the elements for all: sums go straight to the cluster whose part they are, and
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

  /// What is under way at once.
  struct Extent {
    std::size_t most_cuts;    ///< that take a step in a turn
    std::size_t longest_cut;  ///< elements
    std::size_t turns;        ///< on their way
    bool one_way;             ///< also among three clusters and more
  };
  /// The arguments must outlive it.
  ClusterExchange(ScheduleBuilder& builder, const Problem& problem, Compression compression,
                  const RankMap& ranks, const Extent& extent);

  /// Whether three clusters or more end earlier in one way, in which the slow links carry more bytes and
  /// their latency counts once: where what they carry more takes less than a latency. The same on every rank.
  static bool is_quicker_one_way(const RankMap& ranks, const Problem& problem, Compression compression,
                                 const Tuning& tuning);
  static std::size_t steps_of(std::size_t clusters, bool one_way) noexcept {
    return clusters <= 2 || one_way ? 1 : 2;
  }
  std::size_t steps() const noexcept { return one_way_ ? 1 : 2; }
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
  void sum_all(const Cut& cut);
  void reduce(const Cut& cut);
  void gather(const Cut& cut);

  ScheduleBuilder& builder_;
  const Problem& problem_;
  Compression compression_;
  const std::vector<std::uint32_t>& weights_;  // by cluster; empty: equal
  std::size_t cluster_, clusters_, most_cuts_;
  bool one_way_;
  ScratchRing slots_;
};

}  // namespace tombolo::collectives
