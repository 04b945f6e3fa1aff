#include "collectives/schedule/algorithms/tree_reduce.h"

#include "collectives/schedule/algorithms/few_bytes.h"
#include "collectives/schedule/algorithms/root_tree.h"

namespace tombolo::collectives {
namespace {

bool tree_reduce_applies(const RankMap& ranks, const Problem& problem, const Tuning& tuning) {
  return ranks.size > 1 && problem.bytes() <= tuning.small_bytes;
}

Schedule build_tree_reduce(const RankMap& ranks, const Problem& problem, const Tuning&, bool in_place) {
  ScheduleBuilder builder(problem, in_place);
  const TreePlace place = place_in_tree(ranks, problem.root);
  const bool is_root = ranks.rank == problem.root;
  const std::size_t bytes = problem.bytes();
  const Piece input{Buffer::kInput, 0}, output{Buffer::kOutput, 0};
  if (ranks.size == 1) {
    builder.copy(output, input, bytes);
    return builder.build(kTreeReduce.name);
  }
  Piece partial = input;
  // What comes over the fewest ranks comes first.
  for (std::size_t i = place.children.size(); i-- > 0;) {
    const Piece arrived = builder.scratch(bytes);
    builder.receive(place.children[i], arrived, bytes);
    builder.combine(is_root ? output : arrived, partial, arrived, bytes);
    partial = is_root ? output : arrived;
  }
  if (!is_root) builder.send(place.parent, partial, bytes);
  if (is_root && problem.average) builder.divide(output, bytes);
  return builder.build(kTreeReduce.name);
}

Nanoseconds cost_of_tree_reduce(const JobCosts& job, const Problem& problem, const Tuning&) {
  return cost_of_tree(job, problem.bytes(), job.memory(problem.bytes()));
}

}  // namespace

constinit const Algorithm kTreeReduce{.collective = Collective::kReduce,
                                      .name = "tree",
                                      .applicable = tree_reduce_applies,
                                      .build = build_tree_reduce,
                                      .help = "along a tree",
                                      .rule = few_bytes,
                                      .cost = cost_of_tree_reduce};

}  // namespace tombolo::collectives
