// Compares the planner's count of memory with what a CPU stage really allocates.
#include "planner/cost/memory.h"

#include <gtest/gtest.h>

#include "planner/model/schedule.h"
#include "trainer/cpu/cpu_stage.h"

namespace tombolo::trainer {
namespace {

TEST(Memory, ThePlannerCountsWhatAStageAllocates) {
  Shape shape;
  shape.context = 64;
  shape.vocabulary = shape.padded_vocabulary = 256;
  shape.layers = 6;
  shape.heads = 4;
  shape.width = 64;
  for (const auto recompute :
       {planner::Recompute::kNone, planner::Recompute::kSelective, planner::Recompute::kFull})
    for (int each = 0; each < 6; ++each) {
      const int rows = each % 2 == 0 ? 1 : 3, stage = each / 2;
      SCOPED_TRACE(planner::recompute_name(recompute));
      planner::Job job;
      job.model = to_planner_model(shape);
      job.micro_batch = rows;
      job.recompute = recompute;
      job.pipeline = 3;
      job.data = 1;
      job.global_batch = 8 * rows;
      planner::Plan plan;
      plan.job = job;
      plan.pipelines = planner::equal_pipelines(job, {{0, 2}, {2, 2}, {4, 2}});
      const planner::RankMemory planned = planner::rank_memory(plan, 0, stage);

      StageOptions options;
      options.shape = shape;
      options.first_layer = 2 * stage;
      options.layers = 2;
      options.rows = rows;
      options.recompute = recompute;
      options.in_flight = planner::micro_batches_in_flight(stage, 3, 8);
      const StageMemory real = make_cpu_stage(options)->memory();
      EXPECT_EQ(planned.parameters, real.parameters) << "stage " << stage;
      EXPECT_EQ(planned.gradients, real.gradients);
      EXPECT_EQ(planned.optimizer, real.optimizer);
      // Never less than is needed; more only by the attention scratch that blocking saves.
      EXPECT_GE(planned.activations + planned.buffers, real.activations)
          << "stage " << stage << " rows " << rows;
      EXPECT_LE(planned.activations + planned.buffers, real.activations + 64 * 64 * sizeof(float));
    }
}

}  // namespace
}  // namespace tombolo::trainer
