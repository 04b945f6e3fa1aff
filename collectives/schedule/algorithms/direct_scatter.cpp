#include "collectives/schedule/algorithms/direct_scatter.h"

#include "collectives/schedule/partition.h"

namespace tombolo::collectives {
namespace {

Schedule build_direct_scatter(const RankMap& ranks, const Problem& problem, const Tuning& tuning,
                              bool in_place) {
  const std::size_t element = problem.element_bytes, block = problem.bytes();
  ScheduleBuilder builder(in_place, -static_cast<std::ptrdiff_t>(block) * ranks.rank);
  const auto input = [&](int rank) {
    return Piece{Buffer::kInput, 0} + block * static_cast<std::size_t>(rank);
  };
  const Piece own{Buffer::kOutput, 0};
  const bool is_root = ranks.rank == problem.root;
  if (is_root) builder.copy(own, input(ranks.rank), block);
  const std::size_t pieces = pieces_of(problem.count, element, tuning.segment_bytes);
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    const Interval part = part_of({0, problem.count}, piece, pieces);
    const std::size_t at = part.begin * element, bytes = part.count() * element;
    if (!is_root) {
      builder.receive(problem.root, own + at, bytes);
      continue;
    }
    for (int distance = 1; distance < ranks.size; ++distance) {
      const int to = ranks.at(ranks.position + distance);
      builder.send(to, input(to) + at, bytes);
    }
  }
  return builder.build(kDirectScatter.name);
}

}  // namespace

constinit const Algorithm kDirectScatter{Collective::kScatter, "direct", always, build_direct_scatter};

}  // namespace tombolo::collectives
