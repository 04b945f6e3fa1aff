#include "trainer/pipeline/parallel_config.h"

#include "base/error.h"

namespace tombolo::trainer {

int ParallelConfig::rank_at(int stage, int replica) const {
  for (int rank = 0; rank < ranks(); ++rank) {
    const RankCoordinates& own = coordinates[static_cast<std::size_t>(rank)];
    if (own.stage == stage && own.replica == replica) return rank;
  }
  fail(Cause::kInternal, "no rank takes stage {} of replica {}", stage, replica);
}

void ParallelConfig::check(const Shape& shape) const {
  if (stages.empty() || replicas < 1)
    fail(Cause::kInvalidUsage, "layout: {} stages x {} replicas: both must be at least 1", stages.size(),
         replicas);
  int next = 0;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    if (stages[stage].first_layer != next || stages[stage].layers < 1)
      fail(Cause::kInvalidUsage,
           "layout: stage {} has {} layers from layer {}; expected at least one, from layer {} on", stage,
           stages[stage].layers, stages[stage].first_layer, next);
    next += stages[stage].layers;
  }
  if (next != shape.layers)
    fail(Cause::kInvalidUsage, "layout: the stages hold {} layers, but the model has {}", next, shape.layers);
  std::vector<int> taken(stages.size() * static_cast<std::size_t>(replicas), 0);
  for (int rank = 0; rank < ranks(); ++rank) {
    const RankCoordinates& own = coordinates[static_cast<std::size_t>(rank)];
    if (own.stage < 0 || own.stage >= pipeline() || own.replica < 0 || own.replica >= replicas)
      fail(Cause::kInvalidUsage, "layout: rank {} takes stage {} of replica {}, but there are {} x {}", rank,
           own.stage, own.replica, pipeline(), replicas);
    if (++taken[static_cast<std::size_t>(own.stage * replicas + own.replica)] > 1)
      fail(Cause::kInvalidUsage, "layout: stage {} of replica {} is taken twice", own.stage, own.replica);
  }
  if (taken.size() != coordinates.size())
    fail(Cause::kInvalidUsage, "layout: {} stages x {} replicas need {} ranks, but {} are given",
         stages.size(), replicas, taken.size(), coordinates.size());
  if (micro_batch < 1 || global_batch < 1 || global_batch % (replicas * micro_batch) != 0)
    fail(Cause::kInvalidUsage,
         "layout: a batch of {} rows does not divide into {} replicas with micro-batches of {} rows",
         global_batch, replicas, micro_batch);
}

ParallelConfig even_parallel_config(const Shape& shape, int pipeline, int data, int global_batch,
                                    int micro_batch) {
  if (pipeline < 1 || data < 1)
    fail(Cause::kInvalidUsage, "layout: pipeline {} and data {} must be at least 1", pipeline, data);
  if (pipeline > shape.layers)
    fail(Cause::kInvalidUsage, "layout: {} stages cannot share {} layers", pipeline, shape.layers);
  if (global_batch < 1 || global_batch % data != 0)
    fail(Cause::kInvalidUsage, "layout: a batch of {} rows does not divide among {} replicas", global_batch,
         data);
  ParallelConfig parallel;
  parallel.replicas = data;
  parallel.global_batch = global_batch;
  const int share = global_batch / data;
  parallel.micro_batch = micro_batch;
  if (micro_batch == 0) parallel.micro_batch = share % pipeline == 0 ? share / pipeline : share;
  int next = 0;
  for (int stage = 0; stage < pipeline; ++stage) {
    const int layers = shape.layers / pipeline + (stage < shape.layers % pipeline ? 1 : 0);
    parallel.stages.push_back({next, layers});
    next += layers;
    for (int replica = 0; replica < data; ++replica) parallel.coordinates.push_back({stage, replica});
  }
  parallel.check(shape);
  return parallel;
}

ParallelConfig parallel_config_of(const planner::Plan& plan) {
  if (plan.job.framework != planner::Framework::kTombolo || !plan.uniform())
    fail(Cause::kUnsupported,
         "the plan is for {}{}; the bundled trainer runs plans for framework tombolo whose replicas are all "
         "alike",
         framework_name(plan.job.framework), plan.uniform() ? "" : ", with replicas that differ");
  ParallelConfig parallel;
  parallel.stages = plan.stages();
  parallel.replicas = plan.data_size();
  parallel.global_batch = plan.job.global_batch;
  parallel.micro_batch = plan.job.micro_batch;
  for (const planner::RankPlacement& rank : plan.ranks)
    parallel.coordinates.push_back({rank.stage, rank.replica});
  return parallel;
}

}  // namespace tombolo::trainer
