// Which parts of an all-gather or a reduce-scatter each member of a cluster has in its keeping, for all
// members of its cluster: among many members parts travel by host and column (cluster_grid.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/schedule/algorithms/two_level/cluster_grid.h"
#include "collectives/schedule/algorithms/two_level/cluster_shares.h"
#include "collectives/schedule/collective.h"
#include "collectives/schedule/network_costs.h"
#include "collectives/schedule/partition.h"
#include "collectives/schedule/rank_map.h"
#include "collectives/schedule/tuning.h"

namespace tombolo::collectives {

/// Pure: all ranks get the same answers. The arguments must outlive it.
class GridParts {
 public:
  /// Elements of a rank's part.
  struct Item {
    int rank;
    Interval elements;
  };

  /// Parts are kept in so many turns, one piece of each after the other.
  GridParts(const RankMap& ranks, const Problem& problem, std::size_t turns);

  std::size_t turns() const noexcept { return turns_; }
  std::size_t clusters() const noexcept { return grids_.size(); }
  const ClusterGrid& grid(std::size_t cluster) const noexcept { return grids_[cluster]; }
  /// What the member of `cluster` at that row and column keeps of the parts of the cluster `of` in a turn. Of
  /// the own one: its own part, and those of the spare ranks of its host that it is the *keeper* of. Of
  /// another one: as much as any other member, so that a column has what lies one behind the other, and no
  /// less than a message is worth unless parts are as small.
  std::vector<Item> kept(std::size_t cluster, std::size_t of, std::size_t turn, std::size_t row,
                         std::size_t column) const;
  /// What members of another cluster keep of that rank's part, in the order in which each of them sends or
  /// gets it.
  struct Keeper {
    int keeper;  ///< a rank
    Interval elements;
  };
  std::vector<Keeper> keepers(std::size_t cluster, std::size_t of, int rank) const;
  /// The place, on its host, of the member that keeps what a spare rank at `place` has.
  static std::size_t keeper_of(const ClusterGrid& grid, std::size_t place) noexcept {
    return place % grid.columns();
  }

 private:
  /// Those of the parts of a cluster, one behind the other, that lie in these elements.
  std::vector<Item> items_in(std::size_t of, Interval elements) const;

  const RankMap& ranks_;
  const Problem& problem_;
  std::size_t turns_;
  std::vector<ClusterGrid> grids_;  // by cluster
  std::vector<std::vector<std::size_t>>
      starts_;  // by cluster, by member and one more: elements before its part
};

/// What such an algorithm costs, beside bytes.
class GridCosts {
 public:
  /// `all`: bytes of all parts.
  GridCosts(const JobCosts& job, std::uint64_t all, const Tuning& tuning) noexcept
      : job_(job), all_(all), tuning_(tuning) {}

  /// Of one message's way through all stages.
  Nanoseconds latency() const noexcept;
  /// That a rank sends: small ones travel packed; of larger ones each part of the own cluster's is one, and
  /// what another cluster's ranks have lies one behind the other.
  std::uint64_t messages() const noexcept;

 private:
  const JobCosts& job_;
  std::uint64_t all_;
  const Tuning& tuning_;
};

/// The `applicable` of these algorithms: where a ring around a cluster's members would take many steps that
/// are not worth their messages. A reduce-scatter on unlike hosts has all sums go through as few ranks as the
/// smallest host has.
bool grid_gathers(const RankMap& ranks, const Problem& problem, const Tuning& tuning);
bool grid_scatters(const RankMap& ranks, const Problem& problem, const Tuning& tuning);
std::string where_grid_gathers(const RankMap& ranks, const Tuning& tuning);
std::string where_grid_scatters(const RankMap& ranks, const Tuning& tuning);

}  // namespace tombolo::collectives
