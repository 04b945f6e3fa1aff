#include "planner/memory.h"

#include <gtest/gtest.h>

#include "planner/schedule.h"

namespace tombolo::planner {
namespace {

Job gpt2_job() {
  Job job;
  job.model = {"gpt2", 12, 768, 12, 1024, 50257, 4};
  job.global_batch = 16;
  job.micro_batch = 1;
  job.pipeline = 4;
  job.data = 1;
  return job;
}

TEST(Model, CountsGpt2sParameters) {
  // GPT-2 small has 124,439,808 parameters.
  EXPECT_EQ(gpt2_job().model.parameters(), 124'439'808u);
  EXPECT_EQ(gpt2_job().model.layer_parameters(), 7'087'872u);
}

TEST(Model, StagesTogetherHoldTheModelAndOneMoreEmbedding) {
  const Model model = gpt2_job().model;
  EXPECT_EQ(model.stage_parameters(12, true, true), model.parameters());
  EXPECT_EQ(model.stage_parameters(5, true, false) + model.stage_parameters(4, false, false) +
                model.stage_parameters(3, false, true),
            model.parameters() + model.token_embedding_parameters());
}

TEST(Model, ReadsItsShortDescription) {
  const Model model = parse_model("layers=8,hidden=128,heads=4,context=64,vocabulary=256,name=small,bytes=2");
  EXPECT_EQ(model.layers, 8);
  EXPECT_EQ(model.hidden, 128);
  EXPECT_EQ(model.context, 64);
  EXPECT_EQ(model.name, "small");
  EXPECT_EQ(model.bytes_per_value, 2);
  EXPECT_THROW(parse_model("layers=8,depth=4"), Error);
  EXPECT_THROW(parse_model("layers=eight"), Error);
  EXPECT_THROW(parse_model("layers"), Error);
  EXPECT_THROW(parse_model("layers=8,hidden=10,heads=4,context=1,vocabulary=2").check(), Error);
  EXPECT_THROW(parse_model("layers=8").check(), Error);
}

TEST(Memory, ParametersGradientsAndAdamStateArePerStage) {
  const Job job = gpt2_job();
  const std::uint64_t layer = job.model.layer_parameters();
  const RankMemory middle = rank_memory(job, 1, 4, 3);
  EXPECT_EQ(middle.parameters, 3 * layer * 4);
  EXPECT_EQ(middle.gradients, 3 * layer * 4);
  EXPECT_EQ(middle.optimizer, 3 * layer * 8);
  EXPECT_EQ(rank_memory(job, 0, 4, 3).parameters, (3 * layer + job.model.embedding_parameters()) * 4);
  EXPECT_EQ(rank_memory(job, 3, 4, 3).parameters,
            (3 * layer + job.model.token_embedding_parameters() + 2 * 768) * 4);
  EXPECT_EQ(middle.total,
            middle.parameters + middle.gradients + middle.optimizer + middle.activations + middle.buffers);
}

TEST(Memory, EarlierStagesHoldMoreMicroBatchesInFlight) {
  const Job job = gpt2_job();
  const std::uint64_t last_but_one = rank_memory(job, 2, 4, 3).activations;
  EXPECT_EQ(rank_memory(job, 0, 4, 3).activations, last_but_one * 2);  // 4 against 2
  EXPECT_EQ(rank_memory(job, 1, 4, 3).activations, last_but_one / 2 * 3);
  Job short_job = job;
  short_job.global_batch = 2;  // never more in flight than there are
  EXPECT_EQ(rank_memory(short_job, 0, 4, 3).activations, last_but_one);
}

TEST(Memory, LogitsAreOnTheLastStageOnly) {
  const Job job = gpt2_job();
  const std::uint64_t extra =
      rank_memory(job, 3, 4, 3).activations - rank_memory(job, 2, 4, 3).activations / 2;
  EXPECT_EQ(extra, (1024ull * 50257 + 1024ull * 768 + 2 * 1024) * 4);
}

TEST(Memory, HalfPrecisionKeepsAMasterCopy) {
  Job job = gpt2_job();
  job.model.bytes_per_value = 2;
  const RankMemory memory = rank_memory(job, 1, 4, 3);
  EXPECT_EQ(memory.parameters, 3 * job.model.layer_parameters() * 2);
  EXPECT_EQ(memory.optimizer, 3 * job.model.layer_parameters() * 12);
}

TEST(Schedule, WarmsUpThenAlternatesThenCoolsDown) {
  using Order = std::vector<Operation>;
  EXPECT_EQ(one_forward_one_backward(0, 2, 3),
            (Order{{false, 0}, {false, 1}, {true, 0}, {false, 2}, {true, 1}, {true, 2}}));
  EXPECT_EQ(one_forward_one_backward(1, 2, 2), (Order{{false, 0}, {true, 0}, {false, 1}, {true, 1}}));
  EXPECT_EQ(one_forward_one_backward(0, 8, 1), (Order{{false, 0}, {true, 0}}));
}

TEST(Schedule, NeverHoldsMoreThanItSaysItDoes) {
  for (int stages = 1; stages <= 6; ++stages)
    for (int stage = 0; stage < stages; ++stage)
      for (int micro_batches = 1; micro_batches <= 9; ++micro_batches) {
        int held = 0, most = 0, forwards = 0, backwards = 0;
        for (const Operation& operation : one_forward_one_backward(stage, stages, micro_batches)) {
          EXPECT_EQ(operation.micro_batch, operation.backward ? backwards : forwards);
          ++(operation.backward ? backwards : forwards);
          held += operation.backward ? -1 : 1;
          most = std::max(most, held);
        }
        EXPECT_EQ(held, 0);
        EXPECT_EQ(forwards, micro_batches);
        EXPECT_EQ(most, micro_batches_in_flight(stage, stages, micro_batches));
      }
}

}  // namespace
}  // namespace tombolo::planner
