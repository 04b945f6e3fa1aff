#include "planner/plan/model_chunks.h"

#include "planner/model/index.h"

namespace tombolo::planner {

InChunks in_chunks(const Plan& plan, int chunks) {
  Plan other = plan;
  other.job.schedule = Schedule::kInterleaved;
  other.job.chunks = chunks;
  for (int replica = 0; replica < plan.data_size(); ++replica) {
    const int slots = plan.pipeline_size(replica);
    if (plan.pipelines[at(replica)].micro_batches() % slots != 0)
      return {{}, ", which needs as many micro-batches as a multiple of the stages"};
    std::vector<Stage> stages;
    int first = 0;
    for (int chunk = 0; chunk < chunks; ++chunk)
      for (int slot = 0; slot < slots; ++slot) {
        const int all = plan.layers_at(slot, replica);
        if (all < chunks) return {{}, ": a stage has fewer layers than it would have chunks"};
        const int layers = all / chunks + (chunk < all % chunks ? 1 : 0);
        stages.push_back({first, layers, plan.stage(slot, replica).tensor});
        first += layers;
      }
    other.pipelines[at(replica)].stages = std::move(stages);
  }
  other.prediction = {};
  other.choice.reset();
  return {std::move(other), {}};
}

}  // namespace tombolo::planner
