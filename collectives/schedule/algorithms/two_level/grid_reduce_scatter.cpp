#include "collectives/schedule/algorithms/two_level/grid_reduce_scatter.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "collectives/schedule/algorithms/rounds.h"
#include "collectives/schedule/algorithms/two_level/grid_parts.h"
#include "collectives/schedule/algorithms/two_level/packed_parts.h"

namespace tombolo::collectives {
namespace {

/// So many sums of a column are under way at once: while one goes to the other hosts, the next ones are made.
constexpr std::size_t kSumsUnderWay = 4;
/// So many sums of this rank's are on their way to other clusters, at most.
constexpr std::size_t kMostSumsCrossing = 64;
/// So many messages may have come from a host's ranks, or another host, before they are summed up.
constexpr std::size_t kArrivals = 16;
/// A cluster's parts go in so many turns, if messages stay as large as they are worth.
constexpr std::size_t kEnoughTurns = 32;

/// The turns of a call whose ranks each know the bytes of all parts. Each is of so many bytes of a column
/// that its pieces are worth a message: on a host with several ranks those of each part, else the mean of the
/// rounds'.
std::size_t turns_of(const RankMap& ranks, const Problem& problem, const Tuning& tuning) {
  const std::size_t least = std::min(kLeastShare, tuning.segment_bytes);
  std::size_t turns = 1;
  for (std::size_t cluster = 0; cluster < ranks.clusters.size(); ++cluster) {
    const ClusterGrid grid(ranks, cluster);
    for (std::size_t of = 0; of < ranks.clusters.size(); ++of) {
      std::size_t bytes = 0;
      for (const int rank : ranks.clusters[of]) bytes += problem.count_of(rank) * problem.element_bytes;
      const std::size_t column = bytes / grid.columns(), most = least * grid.rows();
      const std::size_t turn =
          grid.columns() > 1 ? most
                             : std::clamp(column / kEnoughTurns, least * messages_among(grid.rows()), most);
      turns = std::max(turns, column / std::max<std::size_t>(turn, 1));
    }
  }
  return turns;
}

class GridScatter {
 public:
  GridScatter(const RankMap& ranks, const Problem& problem, const Tuning& tuning, bool in_place)
      : ranks_(ranks),
        problem_(problem),
        parts_(ranks, problem, turns_of(ranks, problem, tuning)),
        builder_(problem, in_place,
                 -static_cast<std::ptrdiff_t>(problem.offset_of(ranks.rank) * problem.element_bytes)),
        grid_(parts_.grid(cluster())),
        row_(grid_.row_of(index())),
        place_(grid_.place_of(index())),
        // Whole elements.
        most_(std::max<std::size_t>(tuning.segment_bytes / problem.element_bytes, 1) * problem.element_bytes),
        // What goes to other clusters leaves the column's sums, which may not wait for a long link.
        crossing_(crossing_sums(tuning)),
        sums_(builder_, is_alone() ? 0 : longest_sum(),
              grid_.rows() == 1 ? std::max(crossing_, kSumsUnderWay) : kSumsUnderWay),
        leaving_(builder_, grid_.rows() == 1 ? 0 : longest_kept(), crossing_),
        arrivals_(builder_, is_alone() ? 0 : std::min(most_, longest_sum()), kArrivals) {}

  Schedule build() {
    expect_other_clusters();
    for (std::size_t turn = 0; turn < parts_.turns(); ++turn) {
      // What feeds the slow links comes first.
      for (std::size_t distance = 1; distance <= parts_.clusters(); ++distance)
        sum_up({(cluster() + distance) % parts_.clusters(), turn});
    }
    finish();
    return builder_.build(kGridReduceScatter.name);
  }

 private:
  /// Whose parts are summed up at once.
  struct Unit {
    std::size_t of, turn;
  };
  using Message = std::vector<Part>;

  std::size_t cluster() const noexcept { return static_cast<std::size_t>(ranks_.cluster); }
  std::size_t index() const noexcept { return static_cast<std::size_t>(ranks_.index); }
  bool is_spare() const noexcept { return grid_.is_spare(index()); }
  bool is_alone() const noexcept { return grid_.members() == 1; }
  std::size_t bytes(Interval elements) const noexcept { return elements.count() * problem_.element_bytes; }
  Piece input(const GridParts::Item& one) const noexcept {
    return Piece{Buffer::kInput, 0} +
           (problem_.offset_of(one.rank) + one.elements.begin) * problem_.element_bytes;
  }
  Piece output(std::size_t element) const noexcept {
    return Piece{Buffer::kOutput, 0} + element * problem_.element_bytes;
  }

  /// This rank's terms of what the members of a column keep, from so many hosts after this one's on.
  std::vector<Part> terms(const Unit& unit, std::size_t column, std::size_t first, std::size_t count) const {
    std::vector<Part> all;
    for (std::size_t i = first; i < first + count; ++i)
      for (const GridParts::Item& one :
           parts_.kept(cluster(), unit.of, unit.turn, (row_ + i) % grid_.rows(), column))
        all.push_back({input(one), bytes(one.elements)});
    return all;
  }

  /// Of a column of this rank, in any unit.
  std::size_t longest_sum() const {
    std::size_t longest = 0;
    if (is_spare()) return longest;
    for (std::size_t of = 0; of < parts_.clusters(); ++of)
      for (std::size_t turn = 0; turn < parts_.turns(); ++turn)
        longest = std::max(longest, bytes_of(terms({of, turn}, place_, 0, grid_.rows())));
    return longest;
  }

  /// Of what this rank keeps for another cluster in one unit.
  std::size_t longest_kept() const {
    std::size_t longest = 0;
    for (std::size_t of = 0; of < parts_.clusters() && !is_spare(); ++of) {
      for (std::size_t turn = 0; turn < parts_.turns() && of != cluster(); ++turn)
        longest = std::max(longest, bytes_of(terms({of, turn}, place_, 0, 1)));
    }
    return longest;
  }
  /// How many of these fill the link to another cluster, and one that is at either end; 0 where there is
  /// none.
  std::size_t crossing_sums(const Tuning& tuning) const {
    const std::size_t one = longest_kept();
    if (one == 0) return 0;
    const std::size_t units = (parts_.clusters() - 1) * parts_.turns();
    return std::min({2 + tuning.crossing_bytes / one, units, kMostSumsCrossing});
  }

  void send(int peer, const std::vector<Part>& some) {
    for (const Message& message : messages_of(some, most_)) {
      const Part packed = pack(builder_, message);
      builder_.send(peer, packed.piece, packed.bytes);
    }
  }

  /// What is on its way at this rank: the sums of its column, from its own host's on, one behind the other.
  struct Sums {
    Piece piece;
    std::vector<Part> terms;  ///< this rank's
    bool in_piece = false;    ///< anything at all, beside these terms
  };

  /// Adds one arrived message of sums, `at` bytes after the first.
  void add(const Sums& sums, std::size_t at, Piece arrived, std::size_t size) {
    if (sums.in_piece) return builder_.combine(sums.piece + at, sums.piece + at, arrived, size);
    for_terms(sums, at, size, [&](Piece term, std::size_t offset, std::size_t length) {
      builder_.combine(sums.piece + offset, term, arrived + (offset - at), length);
    });
  }
  /// Calls `action` with this rank's terms that lie in so many bytes of the sums.
  template <typename Action>
  static void for_terms(const Sums& sums, std::size_t at, std::size_t size, const Action& action) {
    std::size_t begin = 0;
    for (const Part& term : sums.terms) {
      const std::size_t from = std::max(begin, at), to = std::min(begin + term.bytes, at + size);
      if (from < to) action(term.piece + (from - begin), from, to - from);
      begin += term.bytes;
    }
  }
  void keep_terms(const Sums& sums, std::size_t at, std::size_t size) {
    for_terms(sums, at, size, [&](Piece term, std::size_t offset, std::size_t length) {
      builder_.copy(sums.piece + offset, term, length);
    });
  }

  void sum_up(const Unit& unit) {
    const std::size_t n = grid_.ranks_of(row_);
    for (std::size_t distance = 1; distance < n; ++distance) {
      const std::size_t to = (place_ + distance) % n;
      if (to < grid_.columns()) send(grid_.rank_at(row_, to), terms(unit, to, 0, grid_.rows()));
    }
    if (is_spare()) {
      if (unit.of == cluster()) take_from_keeper(unit.turn);
      return;
    }
    Sums sums{sums_.next(), terms(unit, place_, 0, grid_.rows())};
    std::size_t at = 0;
    for (const Message& message : n == 1 ? std::vector<Message>{} : messages_of(sums.terms, most_)) {
      const std::size_t size = bytes_of(message);
      Sums part = sums;
      // In a fixed order, so that the bits do not depend on who arrives first.
      for (std::size_t distance = n - 1; distance >= 1; --distance) {
        const Piece arrived = arrivals_.next();
        builder_.receive(grid_.rank_at(row_, (place_ + distance) % n), arrived, size);
        add(part, at, arrived, size);
        part.in_piece = true;
      }
      at += size;
    }
    // All hosts cut what they exchange alike.
    if (n == 1 && grid_.has_several()) keep_terms(sums, 0, bytes_of(sums.terms));
    sums.in_piece = grid_.has_several();
    sum_up_in_column(unit, sums);
    hand_out(unit, sums);
  }

  void sum_up_in_column(const Unit& unit, Sums& sums) {
    const std::size_t rows = grid_.rows();
    std::vector<std::size_t> ends{0};  // by host from this one's on: where its sums begin
    for (std::size_t i = 0; i < rows; ++i) ends.push_back(ends.back() + bytes_of(terms(unit, place_, i, 1)));
    for (const CircleRound round : circle_rounds(rows)) {
      const std::size_t begin = ends[round.skip], end = ends[round.before], coming = ends[round.blocks()];
      const int to = grid_.rank_at((row_ + round.skip) % rows, place_),
                from = grid_.rank_at((row_ + rows - round.skip) % rows, place_);
      send(to, sums.in_piece ? std::vector<Part>{{sums.piece + begin, end - begin}}
                             : terms(unit, place_, round.skip, round.blocks()));
      const std::vector<Part> theirs =
          sums.in_piece ? std::vector<Part>{{sums.piece, coming}} : terms(unit, place_, 0, round.blocks());
      std::size_t at = 0;
      for (const Message& message : messages_of(theirs, most_)) {
        const std::size_t size = bytes_of(message);
        const Piece arrived = arrivals_.next();
        builder_.receive(from, arrived, size);
        add(sums, at, arrived, size);
        at += size;
      }
      // Of an odd number of hosts one stays that got nothing.
      if (!sums.in_piece) keep_terms(sums, coming, ends[round.skip] - coming);
      sums.in_piece = true;
    }
  }

  /// The sums of the own cluster are complete, of what this rank keeps. In a cluster of one rank these are
  /// its terms.
  void hand_out(const Unit& unit, const Sums& sums) {
    Piece next = sums.piece;
    if (unit.of != cluster() && grid_.rows() > 1) {
      const std::size_t kept = bytes_of(terms(unit, place_, 0, 1));
      if (kept == 0) return;
      next = leaving_.next();
      builder_.copy(next, sums.piece, kept);
    }
    for (const GridParts::Item& one : parts_.kept(cluster(), unit.of, unit.turn, row_, place_)) {
      const Piece from = sums.in_piece ? next : input(one);
      if (one.rank == ranks_.rank)
        builder_.copy(output(one.elements.begin), from, bytes(one.elements));
      else
        builder_.send(one.rank, from, bytes(one.elements));
      next = next + bytes(one.elements);
    }
  }

  void take_from_keeper(std::size_t turn) {
    const Interval piece = part_of({0, problem_.count}, turn, parts_.turns());
    builder_.receive(grid_.rank_at(row_, GridParts::keeper_of(grid_, place_)), output(piece.begin),
                     bytes(piece));
  }

  /// All sums of other clusters have a place from the beginning, so that none of these waits.
  void expect_other_clusters() {
    const std::size_t clusters = parts_.clusters();
    for (std::size_t distance = 1; distance < clusters; ++distance) {
      const std::size_t other = (cluster() + clusters - distance) % clusters;
      for (const GridParts::Keeper& one : parts_.keepers(other, cluster(), ranks_.rank)) {
        const Piece place = builder_.scratch(bytes(one.elements));
        builder_.receive(one.keeper, place, bytes(one.elements));
        coming_.push_back({place, one.elements});
      }
    }
  }

  void finish() {
    for (const Coming& one : coming_)
      builder_.combine(output(one.elements.begin), output(one.elements.begin), one.place,
                       bytes(one.elements));
    if (problem_.average && ranks_.size > 1) builder_.divide(output(0), problem_.bytes());
  }

  struct Coming {
    Piece place;
    Interval elements;
  };

  const RankMap& ranks_;
  const Problem& problem_;
  GridParts parts_;
  ScheduleBuilder builder_;
  const ClusterGrid& grid_;
  std::size_t row_, place_;
  std::size_t most_;  // bytes of a message
  std::size_t crossing_;
  ScratchRing sums_, leaving_, arrivals_;
  std::vector<Coming> coming_;
};

Schedule build_grid_reduce_scatter(const RankMap& ranks, const Problem& problem, const Tuning& tuning,
                                   bool in_place) {
  return GridScatter(ranks, problem, tuning, in_place).build();
}

/// As of grid_all_gather, and what is summed up.
Nanoseconds cost_of_grid_reduce_scatter(const JobCosts& job, const Problem& problem, const Tuning& tuning) {
  const std::uint64_t all = problem.bytes_of_all(static_cast<int>(job.ranks())), part = all / job.ranks();
  const std::uint64_t from_mates = all - all / job.per_host();
  const GridCosts grid(job, all, tuning);
  const std::uint64_t crossing =
      std::max(job.ranks() - job.smallest(), (job.clusters() - 1) * job.largest()) * part;
  const Nanoseconds copies = from_mates > 0 ? job.wire(Level::kHost, from_mates) : 0;
  const Nanoseconds packing = part <= kWorthPacking ? job.memory(all) : 0;
  return grid.latency() + std::max({job.messages(2 * grid.messages()) + copies + packing + job.memory(all),
                                    job.hosts() > 1 ? job.wire(Level::kCluster, all) : 0,
                                    job.clusters() > 1 ? job.wire(Level::kBetween, crossing) : 0});
}

}  // namespace

constinit const Algorithm kGridReduceScatter{.collective = Collective::kReduceScatter,
                                             .name = "grid",
                                             .applicable = grid_scatters,
                                             .build = build_grid_reduce_scatter,
                                             .help = "on each host, then among hosts in rounds, then across",
                                             .rule = where_grid_scatters,
                                             .in_pieces = true,
                                             .cost = cost_of_grid_reduce_scatter};

}  // namespace tombolo::collectives
