#include "collectives/schedule/algorithms/ring_all_reduce.h"

#include <algorithm>

#include "collectives/schedule/partition.h"

namespace tombolo::collectives {
namespace {

Schedule build_ring_all_reduce(const RankMap& ranks, const Problem& problem, const Tuning& tuning,
                               bool in_place) {
  ScheduleBuilder builder(problem, in_place);
  const int n = ranks.size, p = ranks.position;
  const std::size_t element = problem.element_bytes;
  const Interval whole{0, problem.count};
  if (n == 1) {
    builder.copy({Buffer::kOutput, 0}, {Buffer::kInput, 0}, problem.count * element);
    return builder.build(kRingAllReduce.name);
  }
  const auto shard = [&](int where) {
    return part_of(whole, static_cast<std::size_t>(((where % n) + n) % n), static_cast<std::size_t>(n));
  };
  const std::size_t largest = shard(0).count();
  const std::size_t pieces = pieces_of(largest, element, tuning.segment_bytes);
  const int next = ranks.at(p + 1), previous = ranks.at(p - 1);
  // In place, the output still holds the input, so pieces are received into scratch; eight slots keep up to
  // eight receives posted.
  const std::size_t slot = in_place ? part_of({0, largest}, 0, pieces).count() * element : 0;
  ScratchRing incoming(builder, slot, std::min<std::size_t>(8, pieces * static_cast<std::size_t>(n - 1)));

  for (int step = 0; step < n - 1; ++step) {
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      const Interval out = part_of(shard(p - step), piece, pieces);
      const Buffer from = step == 0 ? Buffer::kInput : Buffer::kOutput;
      builder.send(next, Piece{from, 0} + out.begin * element, out.count() * element);
      const Interval in = part_of(shard(p - step - 1), piece, pieces);
      const std::size_t bytes = in.count() * element;
      const Piece target = Piece{Buffer::kOutput, 0} + in.begin * element;
      const Piece arrived = in_place ? incoming.next() : target;
      builder.receive(previous, arrived, bytes);
      builder.combine(target, arrived, Piece{Buffer::kInput, 0} + in.begin * element, bytes);
      if (problem.average && step == n - 2) builder.divide(target, bytes);
    }
  }
  for (int step = 0; step < n - 1; ++step) {
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      const Interval out = part_of(shard(p + 1 - step), piece, pieces);
      builder.send(next, Piece{Buffer::kOutput, 0} + out.begin * element, out.count() * element);
      const Interval in = part_of(shard(p - step), piece, pieces);
      builder.receive(previous, Piece{Buffer::kOutput, 0} + in.begin * element, in.count() * element);
    }
  }
  return builder.build(kRingAllReduce.name);
}

/// A shard goes around all ranks twice, less one each time; or the slowest link takes longer for its share of
/// all shards.
Nanoseconds cost_of_ring_all_reduce(const JobCosts& job, const Problem& problem, const Tuning& tuning) {
  const std::uint64_t n = job.ranks();
  if (n == 1) return job.memory(problem.bytes());
  const std::uint64_t shard = problem.bytes() / n,
                      piece = std::min<std::uint64_t>(shard, tuning.segment_bytes);
  const Nanoseconds trip = 2 * (n - 1) * (job.around(piece, job.memory(piece) / 2) / n);
  const Nanoseconds link = 2 * (n - 1) * job.slowest_wire(shard);
  // All that comes from the own host is copied, too.
  const Nanoseconds copies = job.per_host() > 1 ? 2 * (n - 1) * job.wire(Level::kHost, shard) : 0;
  const Nanoseconds sums = (n - 1) * job.memory(shard) + copies;
  return std::max({trip, link + job.around(0), sums + job.around(0)});
}

}  // namespace

constinit const Algorithm kRingAllReduce{.collective = Collective::kAllReduce,
                                         .name = "ring",
                                         .applicable = always,
                                         .build = build_ring_all_reduce,
                                         .help = "on a flat ring",
                                         .in_pieces = true,
                                         .cost = cost_of_ring_all_reduce};

}  // namespace tombolo::collectives
