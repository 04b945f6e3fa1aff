#include "planner/plan.h"

#include <algorithm>

#include "base/error.h"

namespace tombolo::planner {

int Plan::data_size() const noexcept {
  int replicas = 0;
  for (const RankPlace& place : ranks) replicas = std::max(replicas, place.replica + 1);
  return replicas;
}

int Plan::micro_batches() const noexcept {
  const int replicas = data_size();
  return replicas > 0 && job.micro_batch > 0 ? job.global_batch / replicas / job.micro_batch : 0;
}

int Plan::rank_at(int stage, int replica) const {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (ranks[rank].stage == stage && ranks[rank].replica == replica) return static_cast<int>(rank);
  fail(Cause::kInvalidUsage, "the plan has no rank at stage {}, replica {}; it has {} stages of {} replicas",
       stage, replica, stages.size(), data_size());
}

}  // namespace tombolo::planner
