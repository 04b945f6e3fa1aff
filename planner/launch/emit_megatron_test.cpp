#include <gtest/gtest.h>

#include "base/error.h"
#include "planner/launch/launch.h"
#include "planner/plan/inexpressible.h"
#include "planner/planner.h"
#include "planner/testing/testing_launch.h"

namespace tombolo::planner {
namespace {

using testing::make_cluster;
using testing::simple_plan;
using testing::small_model;
using topology::NicKind;

topology::ClusterFile clusters_of(int devices) {
  return make_cluster({{"a", 2, devices, NicKind::kInfiniBand, 1e9}, {"b", 2, devices, NicKind::kRoce, 1e9}},
                      1e7);
}

std::string emit(const Plan& plan, const topology::ClusterFile& cluster) {
  return emit(Launcher::kMegatron, plan, cluster, "/shared/it's here/cluster.json");
}

TEST(EmitMegatron, WritesNodesInTheOrderThatFillsWholeStages) {
  PlanOptions options;
  options.rank_hosts = {"b0", "a0", "b1", "a1"};
  Job job{small_model(8), 16, 2, 2, 2};
  const std::string text = emit(make_plan(clusters_of(1), job, options), clusters_of(1));
  EXPECT_MENTIONS(text, "NODE_RANK=0  a0  (cluster a)");
  EXPECT_MENTIONS(text, "NODE_RANK=1  a1  (cluster a)");
  EXPECT_MENTIONS(text, "NODE_RANK=2  b0  (cluster b)");
  EXPECT_MENTIONS(text, "torchrun --rdzv-backend static --nnodes 4 --nproc-per-node \"$PROCESSES\"");
  EXPECT_MENTIONS(text, "--pipeline-model-parallel-size 2");
  EXPECT_MENTIONS(text, "--num-layers 8 --hidden-size 64 --num-attention-heads 4");
  EXPECT_MENTIONS(text, "--micro-batch-size 2 --global-batch-size 16");
  EXPECT_MENTIONS(text, "NCCL_NET_PLUGIN=tombolo");
  EXPECT_MENTIONS(text, "NCCL_NET=Tombolo");
  EXPECT_MENTIONS(text, "NCCL_SOCKET_IFNAME='eth'");
  EXPECT_SILENT_ON(text, "--pipeline-model-parallel-layout");
  EXPECT_SILENT_ON(text, "--use-tp-pp-dp-mapping");
  EXPECT_SILENT_ON(text, "NOT EXPRESSIBLE");
}

TEST(EmitMegatron, WritesUnevenLayersAsALayout) {
  const auto cluster = clusters_of(1);
  Plan plan = simple_plan(small_model(34), {"a0", "a1", "b0", "b1"}, 4, 1, 4);
  plan.pipelines = equal_pipelines(plan.job, to_stages({9, 9, 9, 7}));
  std::string text = emit(plan, cluster);
  EXPECT_MENTIONS(text, "--pipeline-model-parallel-layout \"Et*9|t*9|t*9|t*7L\"");
  EXPECT_MENTIONS(text, "take instead: --decoder-last-pipeline-num-layers 7\n");
  plan.pipelines = equal_pipelines(plan.job, to_stages({9, 9, 8, 8}));
  text = emit(plan, cluster);
  EXPECT_MENTIONS(text, "Et*9|t*9|t*8|t*8L");
  EXPECT_MENTIONS(text, "cannot express this split");
}

TEST(EmitMegatron, LeavesAttentionUnfusedOnlyWhereThePlanDoes) {
  const auto cluster = clusters_of(1);
  Plan plan = simple_plan(small_model(8), {"a0", "a1", "b0", "b1"}, 4, 1, 4);
  plan.job.framework = Framework::kMegatron;
  EXPECT_SILENT_ON(emit(plan, cluster), "--attention-backend");
  plan.job.fused_attention = false;
  EXPECT_MENTIONS(emit(plan, cluster), "--attention-backend unfused");
}

TEST(EmitMegatron, PutsReplicasOutermostWhereAHostHoldsAWholePipeline) {
  // Replica 0 on a0, replica 1 on b0, each with both stages.
  Plan plan = simple_plan(small_model(8), {"a0", "b0", "a0", "b0"}, 2, 2, 4);
  const std::string text = emit(plan, clusters_of(2));
  EXPECT_MENTIONS(text, "--use-tp-pp-dp-mapping");
  EXPECT_MENTIONS(text, "torchrun --rdzv-backend static --nnodes 2");
  EXPECT_MENTIONS(text, "NODE_RANK=1  b0");
  EXPECT_SILENT_ON(text, "NOT EXPRESSIBLE");
}

TEST(EmitMegatron, RenumbersDevicesThatTheLauncherWouldNotGiveInOrder) {
  Plan plan = simple_plan(small_model(8), {"a0", "a0", "b0", "b0"}, 2, 2, 4);
  EXPECT_SILENT_ON(emit(plan, clusters_of(2)), "CUDA_VISIBLE_DEVICES");
  std::swap(plan.ranks[2].device, plan.ranks[3].device);
  EXPECT_MENTIONS(emit(plan, clusters_of(2)), "  1) export CUDA_VISIBLE_DEVICES=1,0 ;;");
}

TEST(EmitMegatron, GivesThePluginTheClusterFileAndTheNodesNamesInIt) {
  const Plan plan = simple_plan(small_model(8), {"a0", "a1", "b0", "b1"}, 2, 2, 4);
  const std::string text = emit(plan, clusters_of(1));
  EXPECT_MENTIONS(text, "TOMBOLO_CLUSTER='/shared/it'\\''s here/cluster.json'; fi\nexport TOMBOLO_CLUSTER\n");
  EXPECT_MENTIONS(text, "'a0'|'a1'|'b0'|'b1') ;;");
  EXPECT_MENTIONS(text, "3) export TOMBOLO_HOST='b1' ;;");
}

TEST(EmitMegatron, RefusesNodesWhoseRanksAreInARowInNeitherOrder) {
  // Host a0 holds stage 0 of replica 0 and stage 1 of replica 1.
  const Plan plan = simple_plan(small_model(8), {"a0", "b0", "b0", "a0"}, 2, 2, 4);
  try {
    emit(plan, clusters_of(2));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kUnsupported);
    EXPECT_MENTIONS(std::string(error.what()), "in a row neither by stage nor by replica. Plan anew");
  }
}

TEST(EmitMegatron, WritesTensorParallelismChunksRecomputationAndLlamasShape) {
  auto cluster = make_cluster({{"a", 1, 4}}, 1e9);
  Model model{"llama", 8, 64, 4, 32, 16, 2, 2, 176};
  model.gated = true;
  model.learned_positions = model.tied_embeddings = model.biases = false;
  Plan plan = simple_plan(model, {"a0", "a0"}, 2, 1, 4);
  plan.job.framework = Framework::kMegatron;
  plan.job.tensor = 2;
  plan.job.sequence_parallel = true;
  plan.job.schedule = Schedule::kInterleaved;
  plan.job.chunks = 2;
  plan.job.recompute = Recompute::kFull;
  plan.pipelines = equal_pipelines(plan.job, {{0, 2, 2}, {2, 2, 2}, {4, 2, 2}, {6, 2, 2}});
  plan.ranks = {{"a0", 0, 0, 0, 0}, {"a0", 1, 0, 0, 1}, {"a0", 2, 1, 0, 0}, {"a0", 3, 1, 0, 1}};
  const std::string text = emit(plan, cluster);
  EXPECT_MENTIONS(text, "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2");
  EXPECT_MENTIONS(text, "--num-layers-per-virtual-pipeline-stage 2");
  EXPECT_MENTIONS(text, "--sequence-parallel");
  EXPECT_MENTIONS(text, "--recompute-granularity full");
  EXPECT_MENTIONS(text, "--group-query-attention --num-query-groups 2");
  EXPECT_MENTIONS(text, "--ffn-hidden-size 176");
  EXPECT_MENTIONS(text, "--swiglu");
  EXPECT_MENTIONS(text, "--normalization RMSNorm --disable-bias-linear");
  EXPECT_MENTIONS(text, "--untie-embeddings-and-output-weights");
  EXPECT_MENTIONS(text, "--position-embedding-type rope");
  EXPECT_MENTIONS(text, "NODE_RANK=0  a0  (cluster a)  devices 0,1,2,3");
  EXPECT_SILENT_ON(text, "NOT EXPRESSIBLE");
  EXPECT_MENTIONS(text, "--recompute-method uniform --recompute-num-layers 1");
  EXPECT_SILENT_ON(text, "--tp-comm-overlap");
  plan.job.recompute_layers = 1;
  plan.job.overlap_tensor = true;
  const std::string other = emit(plan, cluster);
  EXPECT_MENTIONS(other, "--recompute-granularity full --recompute-method block --recompute-num-layers 1");
  EXPECT_MENTIONS(other, "--tp-comm-overlap");
  EXPECT_MENTIONS(other, "export UB_SKIPMC=");
}

TEST(EmitMegatron, WritesLatentAttentionWithDenseLayersBeforeMixtures) {
  const auto cluster = make_cluster({{"a", 1, 2}}, 1e9);
  Model model = testing::mixture_model(8);
  model.bytes_per_value = 2;
  model.gated = true;
  model.learned_positions = model.tied_embeddings = false;
  model.dense_first = 3;
  model.shared_feed_forward = 128;
  model.head_width = 16;
  model.kv_rank = 32;
  model.query_rank = 48;
  model.rotary_width = 8;
  model.value_width = 12;
  Plan plan = simple_plan(model, {"a0", "a0"}, 2, 1, 4);
  plan.job.framework = Framework::kMegatron;
  std::string text = emit(plan, cluster);
  EXPECT_MENTIONS(text, "--multi-latent-attention --qk-layernorm --kv-lora-rank 32 --q-lora-rank 48");
  EXPECT_MENTIONS(text, "--qk-head-dim 16 --qk-pos-emb-head-dim 8 --v-head-dim 12");
  EXPECT_MENTIONS(text, "--rope-type rope");
  EXPECT_MENTIONS(text, "--moe-layer-freq \"[0]*3+[1]*5\"");
  EXPECT_MENTIONS(text, "--moe-shared-expert-intermediate-size 128");
  EXPECT_SILENT_ON(text, "--kv-channels");
  plan.job.model.query_rank = 0;
  text = emit(plan, cluster);
  EXPECT_SILENT_ON(text, "--q-lora-rank");
  const std::vector<std::string> nemo = inexpressible(plan.job, Framework::kNeMo);
  ASSERT_EQ(nemo.size(), 1U);
  EXPECT_MENTIONS(nemo.front(), "NeMo has no latent attention");
}

TEST(EmitMegatron, RefusesWhatMegatronHasNoWordsFor) {
  auto cluster = make_cluster({{"a", 1, 3}}, 1e9);
  Plan plan = simple_plan(small_model(8), {"a0", "a0"}, 2, 1, 4);
  plan.job.framework = Framework::kMegatron;
  plan.job.schedule = Schedule::kZeroBubbleH1;
  EXPECT_THROW(emit(plan, cluster), Error);
  plan.job.schedule = Schedule::kOneForwardOneBackward;
  EXPECT_NO_THROW(emit(plan, cluster));
  plan.pipelines[0].stages[0].tensor = 2;
  plan.ranks = {{"a0", 0, 0, 0, 0}, {"a0", 1, 0, 0, 1}, {"a0", 2, 1, 0, 0}};
  EXPECT_THROW(emit(plan, cluster), Error);
}

}  // namespace
}  // namespace tombolo::planner
