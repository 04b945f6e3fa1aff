#include "planner/plan/plan.h"

#include <algorithm>

#include "base/error.h"
#include "base/units.h"
#include "planner/model/index.h"

namespace tombolo::planner {

const std::vector<Stage>& Plan::stages(int replica) const {
  TOMBOLO_CHECK(replica >= 0 && replica < data_size(), "replica={} of {}", replica, data_size());
  return pipelines[at(replica)].stages;
}

int Plan::pipeline_size(int replica) const {
  return static_cast<int>(stages(replica).size()) / job.chunks;
}

const Stage& Plan::stage(int slot, int replica) const {
  return stages(replica)[at(slot)];
}

int Plan::layers_at(int slot, int replica) const {
  int layers = 0;
  const int slots = pipeline_size(replica);
  for (int chunk = 0; chunk < job.chunks; ++chunk) layers += stage(chunk * slots + slot, replica).layers;
  return layers;
}

std::string Plan::shape() const {
  const auto stages_of = [](const Pipeline& pipeline) { return pipeline.stages.size(); };
  if (std::ranges::all_of(
          pipelines, [&](const Pipeline& one) { return stages_of(one) == stages_of(pipelines.front()); }))
    return counted(pipeline_size(), "stage") + " x " + counted(data_size(), "replica");
  std::string counts;
  for (const Pipeline& pipeline : pipelines)
    counts += fmt::format("{}{}", counts.empty() ? "" : ", ", stages_of(pipeline));
  return fmt::format("{} replicas of {} stages", data_size(), counts);
}

bool Plan::uniform() const noexcept {
  return std::ranges::all_of(pipelines, [&](const Pipeline& one) {
    return one == pipelines.front() && std::ranges::all_of(one.stages, [&](const Stage& stage) {
             return stage.tensor == one.stages.front().tensor;
           });
  });
}

int Plan::rank_at(int stage, int replica, int tensor) const {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (ranks[rank].stage == stage && ranks[rank].replica == replica && ranks[rank].tensor == tensor)
      return static_cast<int>(rank);
  fail(Cause::kInvalidUsage, "the plan has no rank at stage {}, replica {}, tensor {}; it has {} ranks",
       stage, replica, tensor, ranks.size());
}

std::vector<std::vector<std::vector<int>>> Plan::ranks_by_slot() const {
  std::vector<std::vector<std::vector<int>>> result(pipelines.size());
  for (int replica = 0; replica < data_size(); ++replica)
    for (int slot = 0; slot < pipeline_size(replica); ++slot)
      result[at(replica)].emplace_back(at(stage(slot, replica).tensor), -1);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankPlacement& place = ranks[rank];
    result[at(place.replica)][at(place.stage)][at(place.tensor)] = static_cast<int>(rank);
  }
  return result;
}

std::vector<Pipeline> equal_pipelines(const Job& job, const std::vector<Stage>& stages) {
  return std::vector<Pipeline>(at(job.data),
                               Pipeline{stages, job.replica_rows() / job.data, job.micro_batch});
}

}  // namespace tombolo::planner
