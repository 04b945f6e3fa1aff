#include "collectives/schedule/algorithms/two_level/grid_all_gather.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "collectives/schedule/algorithms/rounds.h"
#include "collectives/schedule/algorithms/two_level/grid_parts.h"
#include "collectives/schedule/algorithms/two_level/packed_parts.h"

namespace tombolo::collectives {
namespace {

class GridGather {
 public:
  GridGather(const RankMap& ranks, const Problem& problem, const Tuning& tuning, bool in_place)
      : ranks_(ranks),
        problem_(problem),
        tuning_(tuning),
        parts_(ranks, problem, 1),
        builder_(problem, in_place,
                 static_cast<std::ptrdiff_t>(problem.offset_of(ranks.rank) * problem.element_bytes)),
        grid_(parts_.grid(cluster())),
        row_(grid_.row_of(index())),
        place_(grid_.place_of(index())) {}

  Schedule build() {
    builder_.copy(output(ranks_.rank, 0), {Buffer::kInput, 0}, problem_.bytes());
    for (std::size_t distance = 1; distance < parts_.clusters(); ++distance) cross(distance);
    give_to_keeper();
    for (const std::vector<std::size_t>& unit : units()) {
      if (!grid_.is_spare(index())) gather_in_column(unit);
      gather_on_host(unit);
    }
    return builder_.build(kGridAllGather.name);
  }

 private:
  std::size_t cluster() const noexcept { return static_cast<std::size_t>(ranks_.cluster); }
  std::size_t index() const noexcept { return static_cast<std::size_t>(ranks_.index); }
  std::size_t bytes(Interval elements) const noexcept { return elements.count() * problem_.element_bytes; }
  Piece output(int rank, std::size_t element) const noexcept {
    return Piece{Buffer::kOutput, 0} + (problem_.offset_of(rank) + element) * problem_.element_bytes;
  }

  /// The clusters whose parts go around at once: the own one first, which waits for nobody, then each other
  /// one in the order in which its parts come; or all together where messages would cost more than bytes.
  std::vector<std::vector<std::size_t>> units() const {
    const std::size_t clusters = parts_.clusters();
    std::vector<std::vector<std::size_t>> units;
    for (std::size_t distance = 0; distance < clusters; ++distance) {
      const std::size_t of = (cluster() + clusters - distance) % clusters;
      if (distance > 0 && problem_.bytes_of_all(ranks_.size) / clusters < kLeastShare)
        units.back().push_back(of);
      else
        units.push_back({of});
    }
    return units;
  }

  /// Gives the own part to its keepers in another cluster, and takes what this rank keeps of that one's.
  void cross(std::size_t distance) {
    const std::size_t clusters = parts_.clusters();
    const std::size_t to = (cluster() + distance) % clusters,
                      from = (cluster() + clusters - distance) % clusters;
    for (const GridParts::Keeper& one : parts_.keepers(to, cluster(), ranks_.rank))
      builder_.send(one.keeper, Piece{Buffer::kInput, 0} + one.elements.begin * problem_.element_bytes,
                    bytes(one.elements));
    if (grid_.is_spare(index())) return;
    for (const GridParts::Item& one : parts_.kept(cluster(), from, 0, row_, place_))
      builder_.receive(one.rank, output(one.rank, one.elements.begin), bytes(one.elements));
  }

  void give_to_keeper() {
    if (grid_.is_spare(index())) {
      builder_.send(grid_.rank_at(row_, GridParts::keeper_of(grid_, place_)), {Buffer::kInput, 0},
                    problem_.bytes());
      return;
    }
    for (std::size_t place = place_ + grid_.columns(); place < grid_.ranks_of(row_);
         place += grid_.columns()) {
      const int rank = grid_.rank_at(row_, place);
      builder_.receive(rank, output(rank, 0), problem_.count_of(rank) * problem_.element_bytes);
    }
  }

  /// What the members of a column keep, from so many hosts after this one's on.
  std::vector<std::vector<Part>> messages(const std::vector<std::size_t>& unit, std::size_t column,
                                          std::size_t first, std::size_t count) const {
    std::vector<Part> all;
    for (std::size_t i = first; i < first + count; ++i) {
      for (const std::size_t of : unit) {
        for (const GridParts::Item& one : parts_.kept(cluster(), of, 0, (row_ + i) % grid_.rows(), column))
          all.push_back({output(one.rank, one.elements.begin), bytes(one.elements)});
      }
    }
    return messages_of(all, tuning_.segment_bytes);
  }

  void gather_in_column(const std::vector<std::size_t>& unit) {
    const std::size_t rows = grid_.rows();
    const std::vector<CircleRound> rounds = circle_rounds(rows);
    for (auto round = rounds.rbegin(); round != rounds.rend(); ++round) {
      const int to = grid_.rank_at((row_ + rows - round->skip) % rows, place_),
                from = grid_.rank_at((row_ + round->skip) % rows, place_);
      for (const std::vector<Part>& message : messages(unit, place_, 0, round->blocks())) {
        const Part packed = pack(builder_, message);
        builder_.send(to, packed.piece, packed.bytes);
      }
      for (const std::vector<Part>& message : messages(unit, place_, round->skip, round->blocks()))
        receive_packed(builder_, from, message);
    }
  }

  void gather_on_host(const std::vector<std::size_t>& unit) {
    const std::size_t n = grid_.ranks_of(row_);
    if (n == 1) return;
    if (!grid_.is_spare(index())) {
      for (const std::vector<Part>& message : messages(unit, place_, 0, grid_.rows())) {
        const Part packed = pack(builder_, message);
        for (std::size_t distance = 1; distance < n; ++distance)
          builder_.send(grid_.rank_at(row_, (place_ + distance) % n), packed.piece, packed.bytes);
      }
    }
    for (std::size_t distance = n - 1; distance >= 1; --distance) {
      const std::size_t from = (place_ + distance) % n;
      if (from >= grid_.columns()) continue;
      for (const std::vector<Part>& message : messages(unit, from, 0, grid_.rows()))
        receive_packed(builder_, grid_.rank_at(row_, from), message);
    }
  }

  const RankMap& ranks_;
  const Problem& problem_;
  const Tuning& tuning_;
  GridParts parts_;
  ScheduleBuilder builder_;
  const ClusterGrid& grid_;
  std::size_t row_, place_;
};

Schedule build_grid_all_gather(const RankMap& ranks, const Problem& problem, const Tuning& tuning,
                               bool in_place) {
  return GridGather(ranks, problem, tuning, in_place).build();
}

/// What passes through a rank's processor, a host's NIC or a cluster's uplink, whichever takes longest,
/// behind one message's way.
Nanoseconds cost_of_grid_all_gather(const JobCosts& job, const Problem& problem, const Tuning& tuning) {
  const std::uint64_t all = problem.bytes_of_all(static_cast<int>(job.ranks())), part = all / job.ranks();
  const std::uint64_t mates = job.per_host() - 1, clusters = job.clusters();
  const GridCosts grid(job, all, tuning);
  const std::uint64_t crossing =
      std::max(job.ranks() - job.smallest(), (clusters - 1) * job.largest()) * part;
  const Nanoseconds copies = mates > 0 ? job.wire(Level::kHost, all - all / job.per_host()) : 0;
  const Nanoseconds packing = part <= kWorthPacking ? job.memory(all) : 0;
  return grid.latency() + std::max({job.messages(2 * grid.messages()) + copies + packing,
                                    job.hosts() > 1 ? job.wire(Level::kCluster, all) : 0,
                                    clusters > 1 ? job.wire(Level::kBetween, crossing) : 0});
}

}  // namespace

constinit const Algorithm kGridAllGather{.collective = Collective::kAllGather,
                                         .name = "grid",
                                         .applicable = grid_gathers,
                                         .build = build_grid_all_gather,
                                         .help = "across, then to all hosts in rounds, then on each host",
                                         .rule = where_grid_gathers,
                                         .in_pieces = true,
                                         .cost = cost_of_grid_all_gather};

}  // namespace tombolo::collectives
