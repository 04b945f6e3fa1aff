#include "collectives/schedule/algorithms/tree_reduce.h"

#include "collectives/schedule/algorithms/few_bytes.h"
#include "collectives/schedule/algorithms/root_chain.h"

namespace tombolo::collectives {
namespace {

bool tree_reduce_applies(const RankMap& ranks, const Problem& problem, const Tuning& tuning) {
  return ranks.size > 1 && problem.bytes() <= tuning.small_bytes;
}

Schedule build_tree_reduce(const RankMap& ranks, const Problem& problem, const Tuning&, bool in_place) {
  ScheduleBuilder builder(problem, in_place);
  const std::vector<int> chain = chain_from(ranks, problem.root);
  const std::size_t n = chain.size(), p = position_in(chain, ranks.rank), bytes = problem.bytes();
  const Piece input{Buffer::kInput, 0}, output{Buffer::kOutput, 0};
  if (n == 1) {
    builder.copy(output, input, bytes);
    return builder.build(kTreeReduce.name);
  }
  std::size_t bit = 1;
  while (bit <= p) bit *= 2;
  const std::size_t parent = p - bit / 2;
  Piece partial = input;
  for (; p + bit < n; bit *= 2) {
    const Piece arrived = builder.scratch(bytes);
    builder.receive(chain[p + bit], arrived, bytes);
    builder.combine(p == 0 ? output : arrived, partial, arrived, bytes);
    partial = p == 0 ? output : arrived;
  }
  if (p > 0) builder.send(chain[parent], partial, bytes);
  if (p == 0 && problem.average) builder.divide(output, bytes);
  return builder.build(kTreeReduce.name);
}

}  // namespace

constinit const Algorithm kTreeReduce{.collective = Collective::kReduce,
                                      .name = "tree",
                                      .applicable = tree_reduce_applies,
                                      .build = build_tree_reduce,
                                      .rule = few_bytes};

}  // namespace tombolo::collectives
