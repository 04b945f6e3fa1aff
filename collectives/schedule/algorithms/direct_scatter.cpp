#include "collectives/schedule/algorithms/direct_scatter.h"

#include <algorithm>

#include "collectives/schedule/partition.h"

namespace tombolo::collectives {
namespace {

Schedule build_direct_scatter(const RankMap& ranks, const Problem& problem, const Tuning& tuning,
                              bool in_place) {
  const std::size_t element = problem.element_bytes;
  ScheduleBuilder builder(problem, in_place,
                          -static_cast<std::ptrdiff_t>(problem.offset_of(ranks.rank) * element));
  const auto input = [&](int rank) { return Piece{Buffer::kInput, 0} + problem.offset_of(rank) * element; };
  const Piece own{Buffer::kOutput, 0};
  if (ranks.rank != problem.root) {
    const std::size_t pieces = pieces_of(problem.count, element, tuning.segment_bytes);
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      const Interval part = part_of({0, problem.count}, piece, pieces);
      builder.receive(problem.root, own + part.begin * element, part.count() * element);
    }
    return builder.build(kDirectScatter.name);
  }
  builder.copy(own, input(ranks.rank), problem.bytes());
  std::size_t pieces = 1;
  for (int rank = 0; rank < ranks.size; ++rank)
    pieces = std::max(pieces, pieces_of(problem.count_of(rank), element, tuning.segment_bytes));
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    for (int distance = 1; distance < ranks.size; ++distance) {
      const int to = ranks.at(ranks.position + distance);
      const Interval part = piece_of(problem.count_of(to), element, tuning.segment_bytes, piece);
      builder.send(to, input(to) + part.begin * element, part.count() * element);
    }
  }
  return builder.build(kDirectScatter.name);
}

}  // namespace

constinit const Algorithm kDirectScatter{.collective = Collective::kScatter,
                                         .name = "direct",
                                         .applicable = always,
                                         .build = build_direct_scatter,
                                         .help = "straight to each rank",
                                         .in_pieces = true};

}  // namespace tombolo::collectives
