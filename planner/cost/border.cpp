#include "planner/cost/border.h"

#include <algorithm>

#include "planner/cost/collective.h"
#include "planner/model/index.h"

namespace tombolo::planner {

namespace {

BoundaryTransfer transfer_of(const Job& job) {
  const FrameworkTraits& framework = traits(job.framework);
  return job.sequence_parallel ? framework.boundary_sequence_parallel : framework.boundary;
}

}  // namespace

double border_bytes(const Job& job, double bytes, int from, int to) noexcept {
  return transfer_of(job) == BoundaryTransfer::kCopyPerRank ? bytes * std::max(from, to) : bytes;
}

double sent_at_border(const Plan& plan, int replica, int stage) {
  const Stage &from = plan.stages(replica)[at(stage)], &to = plan.stages(replica)[at(stage + 1)];
  const double bytes = plan.job.boundary_bytes(from.first_layer + from.layers - 1) *
                       plan.pipelines[at(replica)].micro_batch / plan.job.context_parallel;
  return border_bytes(plan.job, bytes, from.tensor, to.tensor);
}

double border_gather_seconds(const Job& job, double bytes, int to, double bytes_per_second) noexcept {
  if (transfer_of(job) != BoundaryTransfer::kPartitionedGathered || bytes_per_second <= 0) return 0;
  return collective_seconds(Collective::kAllGather, bytes, {to, 1 / bytes_per_second, 0});
}

}  // namespace tombolo::planner
