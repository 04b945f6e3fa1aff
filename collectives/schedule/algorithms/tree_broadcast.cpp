#include "collectives/schedule/algorithms/tree_broadcast.h"

#include "collectives/schedule/algorithms/few_bytes.h"
#include "collectives/schedule/algorithms/root_tree.h"

namespace tombolo::collectives {
namespace {

bool tree_broadcast_applies(const RankMap&, const Problem& problem, const Tuning& tuning) {
  return problem.bytes() <= tuning.small_bytes;
}

Schedule build_tree_broadcast(const RankMap& ranks, const Problem& problem, const Tuning&, bool in_place) {
  ScheduleBuilder builder(problem, in_place);
  const TreePlace place = place_in_tree(ranks, problem.root);
  const bool is_root = ranks.rank == problem.root;
  const std::size_t bytes = problem.bytes();
  const Piece output{Buffer::kOutput, 0};
  const Piece source = is_root ? Piece{Buffer::kInput, 0} : output;
  if (is_root) builder.copy(output, source, bytes);
  if (!is_root) builder.receive(place.parent, output, bytes);
  for (const int child : place.children) builder.send(child, source, bytes);
  return builder.build(kTreeBroadcast.name);
}

Nanoseconds cost_of_tree_broadcast(const JobCosts& job, const Problem& problem, const Tuning&) {
  return cost_of_tree(job, problem.bytes(), 0);
}

}  // namespace

constinit const Algorithm kTreeBroadcast{.collective = Collective::kBroadcast,
                                         .name = "tree",
                                         .applicable = tree_broadcast_applies,
                                         .build = build_tree_broadcast,
                                         .help = "along a tree",
                                         .rule = few_bytes,
                                         .cost = cost_of_tree_broadcast};

}  // namespace tombolo::collectives
