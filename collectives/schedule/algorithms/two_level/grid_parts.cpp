#include "collectives/schedule/algorithms/two_level/grid_parts.h"

#include <algorithm>
#include <optional>

#include "base/format.h"
#include "base/units.h"
#include "collectives/schedule/algorithms/rounds.h"
#include "collectives/schedule/algorithms/two_level/packed_parts.h"

namespace tombolo::collectives {

GridParts::GridParts(const RankMap& ranks, const Problem& problem, std::size_t turns)
    : ranks_(ranks), problem_(problem), turns_(turns) {
  for (std::size_t cluster = 0; cluster < ranks.clusters.size(); ++cluster) {
    grids_.emplace_back(ranks, cluster);
    std::vector<std::size_t>& starts = starts_.emplace_back(1, 0);
    for (const int rank : ranks.clusters[cluster]) starts.push_back(starts.back() + problem.count_of(rank));
  }
}

std::vector<GridParts::Item> GridParts::items_in(std::size_t of, Interval elements) const {
  std::vector<Item> items;
  const std::vector<std::size_t>& starts = starts_[of];
  const auto first = std::ranges::upper_bound(starts, elements.begin) - starts.begin() - 1;
  for (auto member = static_cast<std::size_t>(first);
       member + 1 < starts.size() && starts[member] < elements.end; ++member) {
    const std::size_t begin = std::max(elements.begin, starts[member]),
                      end = std::min(elements.end, starts[member + 1]);
    if (begin < end)
      items.push_back({ranks_.clusters[of][member], {begin - starts[member], end - starts[member]}});
  }
  return items;
}

std::vector<GridParts::Item> GridParts::kept(std::size_t cluster, std::size_t of, std::size_t turn,
                                             std::size_t row, std::size_t column) const {
  const ClusterGrid& grid = grids_[cluster];
  if (of == cluster) {
    std::vector<Item> items;
    for (std::size_t place = column; place < grid.ranks_of(row); place += grid.columns()) {
      const int rank = grid.rank_at(row, place);
      const Interval piece = part_of({0, problem_.count_of(rank)}, turn, turns_);
      if (piece.count() > 0) items.push_back({rank, piece});
    }
    return items;
  }
  const Interval all{0, starts_[of].back()};
  const std::size_t members = grid.rows() * grid.columns(), place = column * grid.rows() + row;
  const std::size_t keepers = std::clamp<std::size_t>(all.count() * problem_.element_bytes / kLeastShare,
                                                      std::min(members, grids_[of].members()), members);
  if (keepers == members)
    return items_in(of,
                    part_of(part_of(part_of(all, column, grid.columns()), turn, turns_), row, grid.rows()));
  const std::size_t keeper = (place * keepers + members - 1) / members;  // spread over all
  if (keeper >= keepers || keeper * members / keepers != place) return {};
  return items_in(of, part_of(part_of(all, turn, turns_), keeper, keepers));
}

std::vector<GridParts::Keeper> GridParts::keepers(std::size_t cluster, std::size_t of, int rank) const {
  std::vector<Keeper> all;
  const ClusterGrid& grid = grids_[cluster];
  for (std::size_t turn = 0; turn < turns_; ++turn) {
    for (std::size_t column = 0; column < grid.columns(); ++column) {
      for (std::size_t row = 0; row < grid.rows(); ++row) {
        for (const Item& item : kept(cluster, of, turn, row, column))
          if (item.rank == rank) all.push_back({grid.rank_at(row, column), item.elements});
      }
    }
  }
  return all;
}

Nanoseconds GridCosts::latency() const noexcept {
  const std::uint64_t rounds = job_.hosts() > 1 ? tree_rounds(job_.hosts()) : 0;
  const Nanoseconds in_column = rounds * (job_.latency(Level::kCluster) + job_.messages(2));
  const Nanoseconds on_host = job_.per_host() > 1 ? job_.latency(Level::kHost) + job_.messages(2) : 0;
  const Nanoseconds across = job_.clusters() > 1 ? job_.latency(Level::kBetween) + job_.messages(2) : 0;
  return across + in_column + on_host;
}

std::uint64_t GridCosts::messages() const noexcept {
  const std::uint64_t clusters = job_.clusters(), hosts = job_.hosts(), mates = job_.per_host() - 1;
  const std::uint64_t part = all_ / job_.ranks(), segment = std::max<std::uint64_t>(tuning_.segment_bytes, 1);
  const std::uint64_t rounds = hosts > 1 ? tree_rounds(hosts) : 0;
  const std::uint64_t stages = clusters * (rounds + mates) + clusters - 1;
  const std::uint64_t column = job_.largest() * part / job_.per_host();  // bytes of a cluster's parts
  const std::uint64_t cuts = (clusters - 1) * (1 + mates) * (column / segment);
  const std::uint64_t own = part > kWorthPacking ? (1 + mates) * hosts * (1 + part / segment) : 0;
  return stages + cuts + own;
}

namespace {

/// Of larger parts each step around a cluster is worth its message: in simulated time reduce-scatters of 12
/// to 64 hosts of a rank each took 1.3 to 1.6 times as long by the grid where each rank got 1 MiB and more,
/// and up to 256 KiB 0.3 to 0.9 of the time; all-gathers between two clusters 1.2 to 1.3 times as long from
/// 800 KiB on.
constexpr std::size_t kMostOfPart = std::size_t{256} << 10;

bool have_many(const RankMap& ranks) noexcept {
  return !ranks.uniform_links && std::ranges::any_of(ranks.clusters, [](const auto& cluster) {
    return cluster.size() > kMostPairwise;
  });
}
bool are_small(const RankMap& ranks, const Problem& problem) noexcept {
  return problem.bytes_of_all(ranks.size) / static_cast<std::size_t>(ranks.size) <= kMostOfPart;
}
bool are_alone_on_hosts(const RankMap& ranks) noexcept {
  return std::ranges::all_of(ranks.hosts, [](const auto& hosts) { return std::ranges::max(hosts) == 1; });
}
/// In each cluster.
bool have_alike_hosts(const RankMap& ranks) noexcept {
  return std::ranges::all_of(
      ranks.hosts, [](const auto& hosts) { return std::ranges::min(hosts) == std::ranges::max(hosts); });
}

}  // namespace

bool grid_gathers(const RankMap& ranks, const Problem& problem, const Tuning&) {
  return have_many(ranks) && (!are_alone_on_hosts(ranks) || are_small(ranks, problem));
}

bool grid_scatters(const RankMap& ranks, const Problem& problem, const Tuning&) {
  const bool across_hosts = ranks.clusters.size() > 1 && !are_alone_on_hosts(ranks);
  return have_many(ranks) && have_alike_hosts(ranks) && (across_hosts || are_small(ranks, problem));
}

std::string where_grid_gathers(const RankMap&, const Tuning&) {
  return fmt::format(
      "clusters of more than {} ranks, several on a host or at most {} of each, unless all use the same kind "
      "of "
      "NIC (TOMBOLO_ROUTING=shared)",
      kMostPairwise, format_size(kMostOfPart));
}

std::string where_grid_scatters(const RankMap&, const Tuning&) {
  return fmt::format(
      "clusters of more than {} ranks, with as many on each host, several clusters with several on a host or "
      "at "
      "most {} for each, unless all use the same kind of NIC (TOMBOLO_ROUTING=shared)",
      kMostPairwise, format_size(kMostOfPart));
}

}  // namespace tombolo::collectives
