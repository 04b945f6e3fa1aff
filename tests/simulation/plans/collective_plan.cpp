#include "tests/simulation/plans/collective_plan.h"

#include <algorithm>
#include <array>

#include "tests/simulation/plans/draw.h"

namespace tombolo::simulation {
namespace {

using collectives::Collective;
using collectives::ReduceOp;

// What each rank gives to all steps together; more would only make schedules fewer.
constexpr std::size_t kMostBytesPerRank = 120'000;

CollectiveStep draw_step(Draw& draw, const CollectivePlan& plan, std::size_t& left) {
  CollectiveStep step;
  step.collective = collectives::kAllCollectives[draw.below(std::size(collectives::kAllCollectives))];
  step.type = draw.one_of(kStepTypes);
  constexpr std::array kOps{ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax};
  step.op = draw.one_of(kOps);
  if (step.may_average() && draw.once_in(5)) step.op = ReduceOp::kAverage;
  const std::size_t bytes = std::min(draw_size(draw), left);
  left -= bytes;
  step.count = bytes / collectives::size_of(step.type);
  const bool per_rank = step.collective != Collective::kAllReduce &&
                        step.collective != Collective::kBroadcast && step.collective != Collective::kReduce;
  if (per_rank) step.count /= plan.ranks();
  step.in_half = plan.halves && draw.once_in(3);
  step.root = static_cast<unsigned>(draw.below(plan.ranks()));
  step.in_place = draw.once_in(3);
  if (draw.once_in(3)) {
    for (std::uint64_t transfers = 1 + draw.below(8); transfers != 0; --transfers) {
      Transfer one;
      one.from = static_cast<unsigned>(draw.below(plan.ranks()));
      one.to = static_cast<unsigned>(draw.below(plan.ranks()));
      one.bytes = std::min(draw_size(draw) % 20'000, left);
      left -= one.bytes;
      step.transfers.push_back(one);
    }
  }
  return step;
}

}  // namespace

CollectivePlan draw_collective_plan(std::uint64_t seed, Over over) {
  CollectivePlan plan;
  plan.network = draw_network(seed, over);
  Draw draw(~seed + 1'000'003);
  const std::uint64_t ranks = CollectivePlan::kFewestRanks +
                              draw.below(CollectivePlan::kMostRanks - CollectivePlan::kFewestRanks + 1);
  const std::uint64_t clusters = 1 + draw.below(3);
  for (std::uint64_t rank = 0; rank < ranks; ++rank)
    plan.clusters.push_back(static_cast<unsigned>(draw.below(clusters)));
  for (Fault& fault : plan.network.faults) fault.host = static_cast<unsigned>(draw.below(ranks));
  plan.algorithm = draw.one_of(std::array{"auto", "grid", "ring", "two-level"});
  plan.segment_bytes = draw.one_of(std::array<std::size_t, 3>{512 * 1024, 8192, 1000});
  plan.small_bytes = draw.one_of(std::array<std::size_t, 3>{16 * 1024, 1024, 0});
  plan.halves = draw.once_in(4);
  plan.finalizes = draw.once_in(2);
  if (draw.once_in(12)) {
    plan.abort = CollectivePlan::Abort{static_cast<unsigned>(draw.below(ranks)),
                                       draw.duration(std::chrono::milliseconds(draw.once_in(2) ? 20 : 400))};
  }
  std::size_t left = kMostBytesPerRank;
  for (std::uint64_t steps = 1 + draw.below(8); steps != 0; --steps)
    plan.steps.push_back(draw_step(draw, plan, left));
  // By draws of its own, so that the rest of a seed's plan is what it was before collectives could be
  // started.
  Draw starting(~seed + 2'000'003);
  if (starting.once_in(2)) {
    for (CollectiveStep& step : plan.steps) step.started = starting.once_in(2);
  }
  return plan;
}

void CollectivePlan::leave_out_rank(unsigned rank) {
  const auto renumber = [rank](unsigned& one) { one = one == rank ? 0 : one - (one > rank); };
  clusters.erase(clusters.begin() + rank);
  for (Fault& fault : network.faults) renumber(fault.host);
  if (abort) renumber(abort->rank);
  for (CollectiveStep& step : steps) {
    renumber(step.root);
    for (Transfer& one : step.transfers) {
      renumber(one.from);
      renumber(one.to);
    }
  }
}

}  // namespace tombolo::simulation
