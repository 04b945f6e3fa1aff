// The members of a cluster in rows and columns: a row is a host, and a column has one rank of each.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "collectives/schedule/partition.h"
#include "collectives/schedule/rank_map.h"

namespace tombolo::collectives {

/// There are as many columns as the smallest host has ranks. Of a larger host the ranks beyond those are
/// *spare*: they work with the columns of their own host, and exchange nothing with other hosts. Members
/// count by their index in the cluster. Pure. The map must outlive it.
class ClusterGrid {
 public:
  ClusterGrid(const RankMap& ranks, std::size_t cluster)
      : members_(ranks.clusters[cluster]), hosts_(ranks.hosts[cluster]), columns_(std::ranges::min(hosts_)) {
    std::size_t first = 0;
    for (std::size_t row = 0; row < hosts_.size(); ++row) {
      firsts_.push_back(first);
      rows_.insert(rows_.end(), hosts_[row], row);
      first += hosts_[row];
    }
  }

  std::size_t members() const noexcept { return members_.size(); }
  std::size_t rows() const noexcept { return hosts_.size(); }
  std::size_t columns() const noexcept { return columns_; }
  /// Whether any host has more than one rank.
  bool has_several() const noexcept { return members() > rows(); }
  std::size_t row_of(std::size_t member) const noexcept { return rows_[member]; }
  /// The place of a member on its host: its column, or beyond all of them where it is spare.
  std::size_t place_of(std::size_t member) const noexcept { return member - firsts_[rows_[member]]; }
  bool is_spare(std::size_t member) const noexcept { return place_of(member) >= columns_; }
  std::size_t ranks_of(std::size_t row) const noexcept { return hosts_[row]; }
  std::size_t member_at(std::size_t row, std::size_t place) const noexcept { return firsts_[row] + place; }
  int rank_at(std::size_t row, std::size_t place) const noexcept { return members_[member_at(row, place)]; }

  /// What of some elements a member has the sum of inside its cluster: the members of a column share a part
  /// of all, its *group*. Nothing for a spare one.
  Interval group(Interval all, std::size_t column) const noexcept { return part_of(all, column, columns_); }
  Interval share(Interval all, std::size_t member) const noexcept {
    if (is_spare(member)) return {all.end, all.end};
    return part_of(group(all, place_of(member)), row_of(member), rows());
  }

 private:
  const std::vector<int>& members_;
  const std::vector<std::size_t>& hosts_;
  std::size_t columns_;
  std::vector<std::size_t> firsts_, rows_;  // by row: its first member; by member: its row
};

}  // namespace tombolo::collectives
