#include "collectives/schedule/algorithms/direct_reduce_scatter.h"

#include <cstdint>

#include "collectives/schedule/algorithms/few_bytes.h"

namespace tombolo::collectives {
namespace {

bool direct_reduce_scatter_applies(const RankMap& ranks, const Problem& problem, const Tuning& tuning) {
  return ranks.size > 1 && problem.bytes_of_all(ranks.size) <= tuning.small_bytes;
}

Schedule build_direct_reduce_scatter(const RankMap& ranks, const Problem& problem, const Tuning&,
                                     bool in_place) {
  const int n = ranks.size, p = ranks.position;
  const std::size_t element = problem.element_bytes, bytes = problem.bytes();
  ScheduleBuilder builder(problem, in_place,
                          -static_cast<std::ptrdiff_t>(problem.offset_of(ranks.rank) * element));
  const auto input = [&](int rank) { return Piece{Buffer::kInput, 0} + problem.offset_of(rank) * element; };
  const Piece output{Buffer::kOutput, 0};
  if (n == 1) {
    builder.copy(output, input(0), bytes);
    return builder.build(kDirectReduceScatter.name);
  }
  for (int distance = 1; distance < n; ++distance) {
    const int to = ranks.at(p + distance);
    builder.send(to, input(to), problem.count_of(to) * element);
  }
  Piece partial = input(ranks.rank);
  for (int distance = n - 1; distance >= 1; --distance) {
    const Piece arrived = builder.scratch(bytes);
    builder.receive(ranks.at(p + distance), arrived, bytes);
    builder.combine(output, partial, arrived, bytes);
    partial = output;
  }
  if (problem.average) builder.divide(output, bytes);
  return builder.build(kDirectReduceScatter.name);
}

Nanoseconds cost_of_direct_reduce_scatter(const JobCosts& job, const Problem& problem, const Tuning&) {
  const std::uint64_t others = job.ranks() - 1,
                      part = problem.bytes_of_all(static_cast<int>(job.ranks())) / job.ranks();
  return job.one_to_all(part) + job.memory(others * part);
}

}  // namespace

constinit const Algorithm kDirectReduceScatter{.collective = Collective::kReduceScatter,
                                               .name = "direct",
                                               .applicable = direct_reduce_scatter_applies,
                                               .build = build_direct_reduce_scatter,
                                               .help = "straight to each rank",
                                               .rule = few_bytes_in_all,
                                               .cost = cost_of_direct_reduce_scatter};

}  // namespace tombolo::collectives
