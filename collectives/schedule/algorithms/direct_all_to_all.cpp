#include "collectives/schedule/algorithms/direct_all_to_all.h"

#include <algorithm>

#include "collectives/schedule/partition.h"

namespace tombolo::collectives {
namespace {

Schedule build_direct_all_to_all(const RankMap& ranks, const Problem& problem, const Tuning& tuning,
                                 bool /*in_place*/) {
  ScheduleBuilder builder(problem, false);
  const int n = ranks.size;
  const std::size_t element = problem.element_bytes;
  const auto input = [&](int rank) {
    return Piece{Buffer::kInput, 0} + problem.sent_offset_of(rank) * element;
  };
  const auto output = [&](int rank) { return Piece{Buffer::kOutput, 0} + problem.offset_of(rank) * element; };
  builder.copy(output(ranks.rank), input(ranks.rank), problem.count_of(ranks.rank) * element);
  std::size_t pieces = 1;
  for (int rank = 0; rank < n; ++rank) {
    const std::size_t largest = std::max(problem.count_of(rank), problem.sent_count_of(rank));
    pieces = std::max(pieces, pieces_of(largest, element, tuning.segment_bytes));
  }
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    for (int distance = 1; distance < n; ++distance) {
      const int to = ranks.at(ranks.position + distance), from = ranks.at(ranks.position - distance);
      const Interval out = piece_of(problem.sent_count_of(to), element, tuning.segment_bytes, piece);
      const Interval in = piece_of(problem.count_of(from), element, tuning.segment_bytes, piece);
      builder.send(to, input(to) + out.begin * element, out.count() * element);
      builder.receive(from, output(from) + in.begin * element, in.count() * element);
    }
  }
  return builder.build(kDirectAllToAll.name);
}

Nanoseconds cost_of_direct_all_to_all(const JobCosts& job, const Problem& problem, const Tuning&) {
  return job.one_to_all(problem.bytes());
}

}  // namespace

constinit const Algorithm kDirectAllToAll{.collective = Collective::kAllToAll,
                                          .name = "direct",
                                          .applicable = always,
                                          .build = build_direct_all_to_all,
                                          .help = "straight to each rank",
                                          .in_pieces = true,
                                          .cost = cost_of_direct_all_to_all};

}  // namespace tombolo::collectives
