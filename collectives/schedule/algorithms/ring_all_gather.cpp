#include "collectives/schedule/algorithms/ring_all_gather.h"

#include <algorithm>
#include <cstdint>

#include "collectives/schedule/partition.h"

namespace tombolo::collectives {
namespace {

Schedule build_ring_all_gather(const RankMap& ranks, const Problem& problem, const Tuning& tuning,
                               bool in_place) {
  const int n = ranks.size, p = ranks.position;
  const std::size_t element = problem.element_bytes;
  ScheduleBuilder builder(problem, in_place,
                          static_cast<std::ptrdiff_t>(problem.offset_of(ranks.rank) * element));
  const auto output = [&](int rank) { return Piece{Buffer::kOutput, 0} + problem.offset_of(rank) * element; };
  const Piece own{Buffer::kInput, 0};
  builder.copy(output(ranks.rank), own, problem.bytes());
  std::size_t pieces = 1;
  for (int rank = 0; rank < n; ++rank)
    pieces = std::max(pieces, pieces_of(problem.count_of(rank), element, tuning.segment_bytes));
  for (int step = 0; step < n - 1; ++step) {
    const int going = ranks.at(p - step), coming = ranks.at(p - step - 1);
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      const Interval out = piece_of(problem.count_of(going), element, tuning.segment_bytes, piece);
      const Interval in = piece_of(problem.count_of(coming), element, tuning.segment_bytes, piece);
      const Piece from = step == 0 ? own : output(going);
      builder.send(ranks.at(p + 1), from + out.begin * element, out.count() * element);
      builder.receive(ranks.at(p - 1), output(coming) + in.begin * element, in.count() * element);
    }
  }
  return builder.build(kRingAllGather.name);
}

/// As of ring_all_reduce, once around.
Nanoseconds cost_of_ring_all_gather(const JobCosts& job, const Problem& problem, const Tuning& tuning) {
  const std::uint64_t n = job.ranks(), part = problem.bytes_of_all(static_cast<int>(n)) / n;
  if (n == 1) return job.memory(part);
  const std::uint64_t piece = std::min<std::uint64_t>(part, tuning.segment_bytes);
  const Nanoseconds trip = (n - 1) * (job.around(piece) / n);
  const Nanoseconds copies = job.per_host() > 1 ? job.wire(Level::kHost, part) : 0;
  return std::max(trip, (n - 1) * std::max(job.slowest_wire(part), copies) + job.around(0));
}

}  // namespace

constinit const Algorithm kRingAllGather{.collective = Collective::kAllGather,
                                         .name = "ring",
                                         .applicable = always,
                                         .build = build_ring_all_gather,
                                         .help = "on a flat ring",
                                         .in_pieces = true,
                                         .cost = cost_of_ring_all_gather};

}  // namespace tombolo::collectives
