#include "collectives/schedule/algorithms/ring_reduce_scatter.h"

#include <algorithm>
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
  const std::size_t element = problem.element_bytes, block = problem.bytes();
  ScheduleBuilder builder(in_place, -static_cast<std::ptrdiff_t>(block) * ranks.rank);
  const auto input = [&](int rank) {
    return Piece{Buffer::kInput, 0} + block * static_cast<std::size_t>(rank);
  };
  if (n == 1) {
    builder.copy({Buffer::kOutput, 0}, {Buffer::kInput, 0}, block);
    return builder.build(kRingReduceScatter.name);
  }
  const std::size_t pieces = pieces_of(problem.count, element, tuning.segment_bytes);
  const int next = ranks.at(p + 1), previous = ranks.at(p - 1);
  const std::size_t group = std::min(kPiecesPerGroup, pieces);
  // A step's pieces are sent while the next step's arrive, so two slots per piece are in use.
  ScratchRing slots(builder, part_of({0, problem.count}, 0, pieces).count() * element, 2 * group);
  std::vector<Piece> partial(pieces);
  for (std::size_t first = 0; first < pieces; first += group) {
    for (int step = 0; step < n - 1; ++step) {
      const int going = ranks.at(p - step - 1), coming = ranks.at(p - step - 2);
      for (std::size_t piece = first; piece < std::min(first + group, pieces); ++piece) {
        const Interval part = part_of({0, problem.count}, piece, pieces);
        const std::size_t at = part.begin * element, bytes = part.count() * element;
        builder.send(next, step == 0 ? input(going) + at : partial[piece], bytes);
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

}  // namespace

constinit const Algorithm kRingReduceScatter{Collective::kReduceScatter, "ring", always,
                                             build_ring_reduce_scatter};

}  // namespace tombolo::collectives
