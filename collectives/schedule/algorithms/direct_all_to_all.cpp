#include "collectives/schedule/algorithms/direct_all_to_all.h"

#include "collectives/schedule/partition.h"

namespace tombolo::collectives {
namespace {

Schedule build_direct_all_to_all(const RankMap& ranks, const Problem& problem, const Tuning& tuning,
                                 bool /*in_place*/) {
  ScheduleBuilder builder(false, 0);
  const int n = ranks.size;
  const std::size_t element = problem.element_bytes, block = problem.bytes();
  const auto of = [&](Buffer buffer, int rank) {
    return Piece{buffer, 0} + block * static_cast<std::size_t>(rank);
  };
  builder.copy(of(Buffer::kOutput, ranks.rank), of(Buffer::kInput, ranks.rank), block);
  const std::size_t pieces = pieces_of(problem.count, element, tuning.segment_bytes);
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    const Interval part = part_of({0, problem.count}, piece, pieces);
    const std::size_t at = part.begin * element, bytes = part.count() * element;
    for (int distance = 1; distance < n; ++distance) {
      const int to = ranks.at(ranks.position + distance), from = ranks.at(ranks.position - distance);
      builder.send(to, of(Buffer::kInput, to) + at, bytes);
      builder.receive(from, of(Buffer::kOutput, from) + at, bytes);
    }
  }
  return builder.build(kDirectAllToAll.name);
}

}  // namespace

constinit const Algorithm kDirectAllToAll{Collective::kAllToAll, "direct", always, build_direct_all_to_all};

}  // namespace tombolo::collectives
