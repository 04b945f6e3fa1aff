#include "collectives/schedule/algorithms/direct_gather.h"

#include "collectives/schedule/partition.h"

namespace tombolo::collectives {
namespace {

Schedule build_direct_gather(const RankMap& ranks, const Problem& problem, const Tuning& tuning,
                             bool in_place) {
  const std::size_t element = problem.element_bytes, block = problem.bytes();
  ScheduleBuilder builder(in_place, static_cast<std::ptrdiff_t>(block) * ranks.rank);
  const auto output = [&](int rank) {
    return Piece{Buffer::kOutput, 0} + block * static_cast<std::size_t>(rank);
  };
  const Piece own{Buffer::kInput, 0};
  const bool is_root = ranks.rank == problem.root;
  if (is_root) builder.copy(output(ranks.rank), own, block);
  const std::size_t pieces = pieces_of(problem.count, element, tuning.segment_bytes);
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    const Interval part = part_of({0, problem.count}, piece, pieces);
    const std::size_t at = part.begin * element, bytes = part.count() * element;
    if (!is_root) {
      builder.send(problem.root, own + at, bytes);
      continue;
    }
    for (int distance = 1; distance < ranks.size; ++distance) {
      const int from = ranks.at(ranks.position + distance);
      builder.receive(from, output(from) + at, bytes);
    }
  }
  return builder.build(kDirectGather.name);
}

}  // namespace

constinit const Algorithm kDirectGather{Collective::kGather, "direct", always, build_direct_gather};

}  // namespace tombolo::collectives
