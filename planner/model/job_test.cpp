#include "planner/model/job.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "base/error.h"

namespace tombolo::planner {
namespace {

Job job_to_check() {
  Job job;
  job.model = {"small", 4, 64, 4, 32, 16, 4};
  job.global_batch = 8;
  job.framework = Framework::kMegatron;
  return job;
}

TEST(Job, WhatSavesMemoryComesInTheOrderOfItsCost) {
  Job job = job_to_check();
  job.fused_attention = false;
  const std::vector<Saving> all = savings_of(job);
  ASSERT_EQ(all.size(), 6u);
  EXPECT_EQ(all[0], Saving{});
  EXPECT_EQ(all[1], (Saving{Recompute::kNone, Sharding::kOptimizer}))
      << "sharding sends no more, and comes before recomputing";
  EXPECT_EQ(all[5], (Saving{Recompute::kFull, Sharding::kOptimizer}));
  job.fused_attention = true;
  EXPECT_EQ(savings_of(job).size(), 4u) << "there are no weights of attention to recompute";
  job.framework = Framework::kTombolo;
  EXPECT_EQ(savings_of(job), (std::vector<Saving>{{}, {Recompute::kSelective}, {Recompute::kFull}}));
  job.device = TrainerDevice::kCuda;
  EXPECT_EQ(savings_of(job), (std::vector<Saving>{{}, {Recompute::kFull}}))
      << "its attention keeps nothing that could be recomputed selectively";
}

TEST(Job, RefusesUnfusedAttentionWhereNobodyHasIt) {
  Job job = job_to_check();
  job.fused_attention = false;
  EXPECT_NO_THROW(job.check());
  job.context_parallel = 2;
  EXPECT_THROW(job.check(), Error) << "with rows' tokens divided";
  job.context_parallel = 1;
  job.framework = Framework::kTombolo;
  EXPECT_THROW(job.check(), Error) << "of the bundled trainer, whose device decides";
}

TEST(Job, NamesComeBack) {
  for (const Recompute one : {Recompute::kNone, Recompute::kSelective, Recompute::kFull})
    EXPECT_EQ(recompute_from_name(recompute_name(one)), one);
  for (const Framework one : {Framework::kTombolo, Framework::kMegatron})
    EXPECT_EQ(framework_from_name(framework_name(one)), one);
  EXPECT_FALSE(recompute_from_name("some"));
  for (const TrainerDevice one : {TrainerDevice::kCpu, TrainerDevice::kCuda})
    EXPECT_EQ(trainer_device_from_name(trainer_device_name(one)), one);
  EXPECT_FALSE(framework_from_name("paper"));
  EXPECT_FALSE(trainer_device_from_name("tpu"));
}

TEST(Job, GradientsAreOfTheModelsSizeUnlessMegatronAccumulatesThem) {
  Job job = job_to_check();
  job.model.bytes_per_value = 2;
  EXPECT_EQ(job.gradient_bytes(), 4);
  job.fp32_gradients = false;
  EXPECT_EQ(job.gradient_bytes(), 2);
  job.fp32_gradients = true;
  job.framework = Framework::kTombolo;
  EXPECT_EQ(job.gradient_bytes(), 2);
  job.device = TrainerDevice::kCuda;
  EXPECT_EQ(job.gradient_bytes(), 4);
  EXPECT_EQ(job.optimizer_bytes(), 12);
  job.moment_bytes = 2;
  EXPECT_EQ(job.optimizer_bytes(), 8);
}

TEST(Job, AProfilesKindsReplaceTheModelsSizes) {
  Job job = job_to_check();
  auto profile = std::make_shared<Profile>();
  profile->layers = {"wide", "narrow", "wide", "plain"};
  profile->kinds = {{"wide", 1001, 1, 5000}, {"narrow", 100, 0, 0}, {"embedding", 77, 7, 0}};
  job.profile = profile;
  const std::uint64_t plain = job.model.layer_parameters();
  EXPECT_EQ(job.layer_parameters(0, 4), 1001 + 100 + 1001 + plain);
  // What is replicated is whole on each rank; a share is rounded up.
  EXPECT_EQ(job.layer_parameters(0, 2, 3), (1000 + 2) / 3 + 1 + (100 + 2) / 3);
  EXPECT_EQ(job.embedding_parameters(2), 70 / 2 + 7);
  EXPECT_EQ(job.boundary_bytes(0), 5000);
  EXPECT_EQ(job.boundary_bytes(1), job.model.boundary_bytes());
}

TEST(Job, CheckNamesWhatContradicts) {
  const auto expect_refused = [](const char* part, const std::function<void(Job&)>& change) {
    Job job = job_to_check();
    EXPECT_NO_THROW(job.check());
    change(job);
    try {
      job.check();
      ADD_FAILURE() << part;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  expect_refused("global_batch is 0", [](Job& job) { job.global_batch = 0; });
  expect_refused("at most", [](Job& job) { job.global_batch = 2'000'000; });
  expect_refused("3 tensor-parallel ranks cannot share 4 heads", [](Job& job) { job.tensor = 3; });
  expect_refused("needs tensor > 1", [](Job& job) { job.sequence_parallel = true; });
  expect_refused("only the interleaved ones take more than 1", [](Job& job) { job.chunks = 2; });
  expect_refused("takes at least 2", [](Job& job) { job.schedule = Schedule::kInterleaved; });
  const auto tombolo = [](const std::function<void(Job&)>& change) {
    return [change](Job& job) {
      job.framework = Framework::kTombolo;
      change(job);
    };
  };
  expect_refused("no tensor parallelism", tombolo([](Job& job) { job.tensor = 2; }));
  expect_refused("no schedule but 1f1b", tombolo([](Job& job) { job.schedule = Schedule::kGPipe; }));
  expect_refused("values of 8 bytes on device cuda", tombolo([](Job& job) {
                   job.device = TrainerDevice::kCuda;
                   job.model.bytes_per_value = 8;
                 }));
  expect_refused("moments of 2 bytes on device cpu", tombolo([](Job& job) { job.moment_bytes = 2; }));
  expect_refused("are the bundled trainer's", [](Job& job) { job.device = TrainerDevice::kCuda; });
  expect_refused("products in fp8-hybrid take", [](Job& job) { job.precision = Precision::kFp8Hybrid; });
  expect_refused("no products in fp8", tombolo([](Job& job) {
                   job.model.bytes_per_value = 2;
                   job.precision = Precision::kFp8E4m3;
                 }));
  expect_refused("context_parallel is 0", [](Job& job) { job.context_parallel = 0; });
  expect_refused("rows of 32 tokens", [](Job& job) { job.context_parallel = 32; });
  expect_refused("4 heads do not divide among 8 ranks", [](Job& job) {
    job.context_parallel = 8;
    job.context_exchange = ContextExchange::kAllToAll;
  });
  expect_refused("heads of keys do not divide among 4 ranks", [](Job& job) {
    job.context_parallel = job.tensor = job.model.kv_heads = 2;
    job.context_exchange = ContextExchange::kAllToAll;
  });
  expect_refused("no context parallelism", tombolo([](Job& job) { job.context_parallel = 2; }));
  expect_refused("no sharded optimizer", tombolo([](Job& job) { job.sharding = Sharding::kOptimizer; }));
  expect_refused("no recomputation of some layers", tombolo([](Job& job) {
                   job.recompute = Recompute::kFull;
                   job.recompute_layers = 2;
                 }));
  expect_refused("only whole layers", [](Job& job) { job.recompute_layers = 2; });
  expect_refused("no blocking sends", tombolo([](Job& job) { job.sends = StageSends::kInTurn; }));
}

}  // namespace
}  // namespace tombolo::planner
