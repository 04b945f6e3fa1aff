#include "collectives/schedule/algorithms/direct_gather.h"

#include <algorithm>

#include "collectives/schedule/partition.h"

namespace tombolo::collectives {
namespace {

Schedule build_direct_gather(const RankMap& ranks, const Problem& problem, const Tuning& tuning,
                             bool in_place) {
  const std::size_t element = problem.element_bytes;
  ScheduleBuilder builder(problem, in_place,
                          static_cast<std::ptrdiff_t>(problem.offset_of(ranks.rank) * element));
  const auto output = [&](int rank) { return Piece{Buffer::kOutput, 0} + problem.offset_of(rank) * element; };
  const Piece own{Buffer::kInput, 0};
  if (ranks.rank != problem.root) {
    const std::size_t pieces = pieces_of(problem.count, element, tuning.segment_bytes);
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      const Interval part = part_of({0, problem.count}, piece, pieces);
      builder.send(problem.root, own + part.begin * element, part.count() * element);
    }
    return builder.build(kDirectGather.name);
  }
  builder.copy(output(ranks.rank), own, problem.bytes());
  std::size_t pieces = 1;
  for (int rank = 0; rank < ranks.size; ++rank)
    pieces = std::max(pieces, pieces_of(problem.count_of(rank), element, tuning.segment_bytes));
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    for (int distance = 1; distance < ranks.size; ++distance) {
      const int from = ranks.at(ranks.position + distance);
      const Interval part = piece_of(problem.count_of(from), element, tuning.segment_bytes, piece);
      builder.receive(from, output(from) + part.begin * element, part.count() * element);
    }
  }
  return builder.build(kDirectGather.name);
}

}  // namespace

constinit const Algorithm kDirectGather{.collective = Collective::kGather,
                                        .name = "direct",
                                        .applicable = always,
                                        .build = build_direct_gather,
                                        .help = "straight from each rank",
                                        .in_pieces = true};

}  // namespace tombolo::collectives
