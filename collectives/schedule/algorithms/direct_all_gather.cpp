#include "collectives/schedule/algorithms/direct_all_gather.h"

#include <cstdint>

#include "collectives/schedule/algorithms/few_bytes.h"

namespace tombolo::collectives {
namespace {

bool direct_all_gather_applies(const RankMap& ranks, const Problem& problem, const Tuning& tuning) {
  return problem.bytes_of_all(ranks.size) <= tuning.small_bytes;
}

Schedule build_direct_all_gather(const RankMap& ranks, const Problem& problem, const Tuning&, bool in_place) {
  const int n = ranks.size, p = ranks.position;
  const std::size_t element = problem.element_bytes;
  ScheduleBuilder builder(problem, in_place,
                          static_cast<std::ptrdiff_t>(problem.offset_of(ranks.rank) * element));
  const auto output = [&](int rank) { return Piece{Buffer::kOutput, 0} + problem.offset_of(rank) * element; };
  const Piece own{Buffer::kInput, 0};
  builder.copy(output(ranks.rank), own, problem.bytes());
  for (int distance = 1; distance < n; ++distance) {
    const int from = ranks.at(p - distance);
    builder.send(ranks.at(p + distance), own, problem.bytes());
    builder.receive(from, output(from), problem.count_of(from) * element);
  }
  return builder.build(kDirectAllGather.name);
}

Nanoseconds cost_of_direct_all_gather(const JobCosts& job, const Problem& problem, const Tuning&) {
  return job.one_to_all(problem.bytes_of_all(static_cast<int>(job.ranks())) / job.ranks());
}

}  // namespace

constinit const Algorithm kDirectAllGather{.collective = Collective::kAllGather,
                                           .name = "direct",
                                           .applicable = direct_all_gather_applies,
                                           .build = build_direct_all_gather,
                                           .help = "straight to each rank",
                                           .rule = few_bytes_in_all,
                                           .cost = cost_of_direct_all_gather};

}  // namespace tombolo::collectives
