#include "tests/extending/star_all_reduce.h"

namespace tombolo::collectives {
namespace {

bool star_all_reduce_applies(const RankMap& ranks, const Problem&, const Tuning&) {
  return ranks.size <= 3;
}

Schedule build_star_all_reduce(const RankMap& ranks, const Problem& problem, const Tuning&, bool in_place) {
  ScheduleBuilder builder(problem, in_place);
  const std::size_t bytes = problem.bytes();
  const Piece input{Buffer::kInput, 0}, output{Buffer::kOutput, 0};
  const int center = ranks.order.front();
  if (ranks.rank != center) {
    builder.send(center, input, bytes);
    builder.receive(center, output, bytes);
    return builder.build(kStarAllReduce.name);
  }
  Piece sum = input;
  // In a fixed order, so that the bits do not depend on which message comes first.
  for (int position = 1; position < ranks.size; ++position) {
    const Piece arrived = builder.scratch(bytes);
    builder.receive(ranks.at(position), arrived, bytes);
    builder.combine(output, sum, arrived, bytes);
    sum = output;
  }
  builder.copy(output, sum, bytes);  // where there is one rank only
  if (problem.average) builder.divide(output, bytes);
  for (int position = 1; position < ranks.size; ++position) {
    builder.send(ranks.at(position), output, bytes);
  }
  return builder.build(kStarAllReduce.name);
}

}  // namespace

constinit const Algorithm kStarAllReduce{Collective::kAllReduce, "star", star_all_reduce_applies,
                                         build_star_all_reduce, "through one rank"};

}  // namespace tombolo::collectives
