#include <fmt/ranges.h>

#include <algorithm>

#include "planner/launch/emitted_precision.h"
#include "planner/launch/framework_arguments.h"

namespace tombolo::planner {

namespace {

class Words {
 public:
  template <typename... Values>
  void add(fmt::format_string<Values...> text, Values&&... values) {
    arguments_.lines.push_back(fmt::format(text, std::forward<Values>(values)...));
  }
  void remark(std::string sentence) {
    if (!sentence.empty()) arguments_.remarks.push_back(std::move(sentence));
  }
  FrameworkArguments take() { return std::move(arguments_); }

 private:
  FrameworkArguments arguments_;
};

void add_router(Words& words, const Model& model) {
  const Router& router = model.router;
  if (router.sigmoid)
    words.add("--moe-router-score-function sigmoid");
  else if (router.all_scores || model.experts_per_token == 1)  // the softmax of one score alone is 1
    words.add("--moe-router-pre-softmax");
  if (router.expert_biases) words.add("--moe-router-enable-expert-bias");
  if (router.groups > 0)
    words.add("--moe-router-num-groups {} --moe-router-group-topk {}", router.groups,
              router.groups_per_token);
  if (router.scale != 1) words.add("--moe-router-topk-scaling-factor {}", router.scale);
}

void add_shape(Words& words, const Model& model) {
  words.add("--num-layers {} --hidden-size {} --num-attention-heads {}", model.layers, model.hidden,
            model.heads);
  if (model.latent()) {
    words.add("--multi-latent-attention --qk-layernorm --kv-lora-rank {}{}", model.kv_rank,
              model.query_rank > 0 ? fmt::format(" --q-lora-rank {}", model.query_rank) : "");
    words.add("--qk-head-dim {} --qk-pos-emb-head-dim {} --v-head-dim {}", model.head_width,
              model.rotary_width, model.value_head());
    // Latent attention takes yarn unless it is told otherwise.
    words.add("--rope-type rope");
  } else if (model.head_width > 0) {
    words.add("--kv-channels {}", model.head_width);
  }
  if (model.inner() != 4 * model.hidden) words.add("--ffn-hidden-size {}", model.inner());
  if (model.key_value_heads() != model.heads)
    words.add("--group-query-attention --num-query-groups {}", model.key_value_heads());
  if (model.gated) words.add("--swiglu");
  if (!model.biases)
    words.add("--normalization {} --disable-bias-linear",
              model.has(Peculiarity::kLayerNorm) ? "LayerNorm" : "RMSNorm");
  if (model.qkv_biases) words.add("--add-qkv-bias");
  if (model.query_key_norms) words.add("--qk-layernorm");
  // Models without biases, from Llama on, train without dropout too; Megatron's default is 0.1.
  if (!model.biases) words.add("--attention-dropout 0 --hidden-dropout 0");
  if (!model.tied_embeddings) words.add("--untie-embeddings-and-output-weights");
  words.add("--seq-length {0} --max-position-embeddings {0} --position-embedding-type {1}", model.context,
            model.learned_positions ? "learned_absolute" : "rope");
  if (!model.learned_positions && model.rotary_base > 0) words.add("--rotary-base {:.0f}", model.rotary_base);
  if (model.rotary_share != 1) words.add("--rotary-percent {}", model.rotary_share);
  if (model.rotary_pairs) words.add("--rotary-interleaved");
  if (model.rotary_scaling > 0)
    words.add("--use-rope-scaling --rope-scaling-factor {}", model.rotary_scaling);
  if (model.experts > 0) {
    words.add("--num-experts {} --moe-router-topk {}", model.experts, model.experts_per_token);
    if (model.expert_feed_forward > 0) words.add("--moe-ffn-hidden-size {}", model.expert_feed_forward);
    if (model.shared_feed_forward > 0)
      words.add("--moe-shared-expert-intermediate-size {}", model.shared_feed_forward);
    if (model.mixed()) words.add("--moe-layer-freq \"{}\"", mixture_pattern(model));
    add_router(words, model);
    words.add("--moe-grouped-gemm --moe-token-dispatcher-type alltoall");
  }
}

void add_precision(Words& words, const Job& job, const EmittedPrecision& emitted) {
  words.remark(emitted.remark);
  switch (emitted.precision) {
    case Precision::kFp32:
    case Precision::kTf32:
      return;
    case Precision::kFp16:
      words.add("--fp16");
      // Only with --bf16 does Megatron accumulate gradients in fp32 unasked.
      if (job.fp32_gradients) words.add("--accumulate-allreduce-grads-in-fp32");
      return;
    case Precision::kFp8Hybrid:
      words.add("--bf16 --fp8-format hybrid");
      break;
    case Precision::kFp8E4m3:
      words.add("--bf16 --fp8-format e4m3");
      break;
    case Precision::kBf16:
      words.add("--bf16");
      break;
  }
  if (!job.fp32_gradients) words.add("--grad-reduce-in-bf16");
}

/// The arguments of older versions of Megatron, in which only the first and the last stage may differ.
std::string first_last_arguments(const std::vector<Stage>& stages) {
  if (stages.size() < 2) return {};
  const int first = stages.front().layers, last = stages.back().layers;
  if (stages.size() == 2) return fmt::format("--decoder-first-pipeline-num-layers {}", first);
  const int middle = stages[1].layers;
  for (std::size_t stage = 1; stage + 1 < stages.size(); ++stage)
    if (stages[stage].layers != middle) return {};
  std::string text;
  if (first != middle) text += fmt::format("--decoder-first-pipeline-num-layers {}", first);
  if (last != middle)
    text += fmt::format("{}--decoder-last-pipeline-num-layers {}", text.empty() ? "" : " ", last);
  return text;
}

void add_stages(Words& words, const Plan& plan) {
  const int even = even_layers(plan);
  if (even == 0) {
    words.add("--pipeline-model-parallel-layout \"{}\"", pipeline_layout(plan));
    const std::string older = plan.job.chunks > 1 ? "" : first_last_arguments(plan.stages());
    words.remark(
        older.empty()
            ? "Versions of Megatron without --pipeline-model-parallel-layout cannot express this split."
            : fmt::format("Versions without --pipeline-model-parallel-layout take instead: {}", older));
  } else if (plan.job.chunks > 1) {
    words.add("--num-layers-per-virtual-pipeline-stage {}", even);
  }
}

}  // namespace

std::string mixture_pattern(const Model& model) {
  std::string text;
  for (int layer = 0; layer < model.layers;) {
    int end = layer + 1;
    while (end < model.layers && model.mlp_of(end) == model.mlp_of(layer)) ++end;
    text += fmt::format("{}[{}]*{}", text.empty() ? "" : "+", model.mlp_of(layer) == Mlp::kMixture ? 1 : 0,
                        end - layer);
    layer = end;
  }
  return text;
}

std::string pipeline_layout(const Plan& plan) {
  std::string text;
  const std::vector<Stage>& stages = plan.stages();
  for (std::size_t stage = 0; stage < stages.size(); ++stage)
    text += fmt::format("{}t*{}", stage == 0 ? "E" : "|", stages[stage].layers);
  return text + 'L';
}

FrameworkArguments megatron_arguments(const Plan& plan, const topology::ClusterFile& cluster,
                                      Numbering numbering) {
  const Job& job = plan.job;
  Words words;
  words.add("--tensor-model-parallel-size {} --pipeline-model-parallel-size {}", job.tensor,
            plan.pipeline_size());
  if (job.context_parallel > 1)
    words.add("--context-parallel-size {} --cp-comm-type {}", job.context_parallel,
              job.context_exchange == ContextExchange::kRing ? "p2p" : "a2a");
  if (job.model.experts > 0)
    words.add("--expert-model-parallel-size {} --expert-tensor-parallel-size {}", job.expert_parallel,
              job.tensor);
  add_shape(words, job.model);
  words.add("--micro-batch-size {} --global-batch-size {}", job.micro_batch, job.global_batch);
  add_stages(words, plan);
  if (numbering == Numbering::kReplicasOutermost) words.add("--use-tp-pp-dp-mapping");
  if (job.sequence_parallel) words.add("--sequence-parallel");
  // By default Megatron takes a fused kernel where there is one.
  if (!job.fused_attention) words.add("--attention-backend unfused");
  if (job.overlap_tensor && job.tensor > 1) {
    words.add("--tp-comm-overlap");
    words.remark(std::string(kTensorOverlapNeeds));
  }
  if (job.recompute == Recompute::kSelective) words.add("--recompute-activations");
  if (job.recompute == Recompute::kFull && job.recompute_layers > 0)
    words.add("--recompute-granularity full --recompute-method block --recompute-num-layers {}",
              job.recompute_layers);
  else if (job.recompute == Recompute::kFull)
    words.add("--recompute-granularity full --recompute-method uniform --recompute-num-layers 1");
  if (plan.data_size() > 1) {
    if (job.overlap_gradients) words.add("--overlap-grad-reduce");
    if (job.sharded()) words.add("--use-distributed-optimizer");
    if (job.sharded() && job.overlap_parameters) words.add("--overlap-param-gather");
  }
  add_precision(words, job, emitted_precision(plan, cluster));
  words.remark(
      fmt::format("Vocabulary {}: choose the tokenizer (and --make-vocab-size-divisible-by) to match.",
                  job.model.vocabulary));
  return words.take();
}

}  // namespace tombolo::planner
