#include "collectives/schedule/algorithms/ring_reduce_scatter.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "collectives/schedule/partition.h"

namespace tombolo::collectives {
namespace {

/// How many pieces go around the ring together. Partial sums of other ranks' parts pass through scratch,
/// which groups of this size keep small.
constexpr std::size_t kPiecesPerGroup = 16;

Schedule build_ring_reduce_scatter(const RankMap& ranks, const Problem& problem, const Tuning& tuning,
                                   bool in_place) {
  const int n = ranks.size, p = ranks.position;
  const std::size_t element = problem.element_bytes;
  ScheduleBuilder builder(problem, in_place,
                          -static_cast<std::ptrdiff_t>(problem.offset_of(ranks.rank) * element));
  const auto input = [&](int rank) { return Piece{Buffer::kInput, 0} + problem.offset_of(rank) * element; };
  if (n == 1) {
    builder.copy({Buffer::kOutput, 0}, input(0), problem.bytes());
    return builder.build(kRingReduceScatter.name);
  }
  std::size_t pieces = 1, largest_piece = 0;  // of any rank's part; bytes
  for (int rank = 0; rank < n; ++rank) {
    const std::size_t count = problem.count_of(rank);
    pieces = std::max(pieces, pieces_of(count, element, tuning.segment_bytes));
    largest_piece =
        std::max(largest_piece, piece_of(count, element, tuning.segment_bytes, 0).count() * element);
  }
  const int next = ranks.at(p + 1), previous = ranks.at(p - 1);
  const std::size_t group = std::min(kPiecesPerGroup, pieces);
  // A step's pieces are sent while the next step's arrive, so two slots per piece are in use.
  ScratchRing slots(builder, largest_piece, 2 * group);
  std::vector<Piece> partial(pieces);
  for (std::size_t first = 0; first < pieces; first += group) {
    for (int step = 0; step < n - 1; ++step) {
      const int going = ranks.at(p - step - 1), coming = ranks.at(p - step - 2);
      for (std::size_t piece = first; piece < std::min(first + group, pieces); ++piece) {
        const Interval out = piece_of(problem.count_of(going), element, tuning.segment_bytes, piece);
        builder.send(next, step == 0 ? input(going) + out.begin * element : partial[piece],
                     out.count() * element);
        const Interval in = piece_of(problem.count_of(coming), element, tuning.segment_bytes, piece);
        const std::size_t at = in.begin * element, bytes = in.count() * element;
        const Piece arrived = slots.next();
        builder.receive(previous, arrived, bytes);
        const bool last = step == n - 2;
        partial[piece] = last ? Piece{Buffer::kOutput, 0} + at : arrived;
        builder.combine(partial[piece], arrived, input(coming) + at, bytes);
        if (last && problem.average) builder.divide(partial[piece], bytes);
      }
    }
  }
  return builder.build(kRingReduceScatter.name);
}

/// As of ring_all_reduce, once around; and no more pieces than there are slots are on their way between two
/// ranks.
Nanoseconds cost_of_ring_reduce_scatter(const JobCosts& job, const Problem& problem, const Tuning& tuning) {
  const std::uint64_t n = job.ranks(), part = problem.bytes_of_all(static_cast<int>(n)) / n;
  if (n == 1) return job.memory(part);
  const std::uint64_t piece = std::min<std::uint64_t>(part, tuning.segment_bytes);
  const std::uint64_t pieces =
      std::max<std::uint64_t>(1, (part + tuning.segment_bytes - 1) / tuning.segment_bytes);
  const Nanoseconds trip = (n - 1) * (job.around(piece, job.memory(piece)) / n);
  const Nanoseconds link = (n - 1) * std::max(job.slowest_wire(part), job.memory(2 * part)) + job.around(0);
  const Nanoseconds slots = (n - 1) * pieces * job.hop(job.farthest(), piece) /
                            (2 * std::min<std::uint64_t>(kPiecesPerGroup, pieces));
  return std::max({trip, link, slots});
}

}  // namespace

constinit const Algorithm kRingReduceScatter{.collective = Collective::kReduceScatter,
                                             .name = "ring",
                                             .applicable = always,
                                             .build = build_ring_reduce_scatter,
                                             .help = "on a flat ring",
                                             .in_pieces = true,
                                             .cost = cost_of_ring_reduce_scatter};

}  // namespace tombolo::collectives
