#include "collectives/schedule/algorithms/ring_all_gather.h"

#include "collectives/schedule/partition.h"

namespace tombolo::collectives {
namespace {

Schedule build_ring_all_gather(const RankMap& ranks, const Problem& problem, const Tuning& tuning,
                               bool in_place) {
  const int n = ranks.size, p = ranks.position;
  const std::size_t element = problem.element_bytes, block = problem.bytes();
  ScheduleBuilder builder(in_place, static_cast<std::ptrdiff_t>(block) * ranks.rank);
  const auto output = [&](int rank) {
    return Piece{Buffer::kOutput, 0} + block * static_cast<std::size_t>(rank);
  };
  const Piece own{Buffer::kInput, 0};
  builder.copy(output(ranks.rank), own, block);
  const std::size_t pieces = pieces_of(problem.count, element, tuning.segment_bytes);
  for (int step = 0; step < n - 1; ++step) {
    const Piece going = step == 0 ? own : output(ranks.at(p - step));
    const Piece coming = output(ranks.at(p - step - 1));
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      const Interval part = part_of({0, problem.count}, piece, pieces);
      builder.send(ranks.at(p + 1), going + part.begin * element, part.count() * element);
      builder.receive(ranks.at(p - 1), coming + part.begin * element, part.count() * element);
    }
  }
  return builder.build(kRingAllGather.name);
}

}  // namespace

constinit const Algorithm kRingAllGather{Collective::kAllGather, "ring", always, build_ring_all_gather};

}  // namespace tombolo::collectives
