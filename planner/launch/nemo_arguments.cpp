#include <fmt/format.h>

#include <algorithm>

#include "planner/launch/emitted_precision.h"
#include "planner/launch/framework_arguments.h"

namespace tombolo::planner {

namespace {

/// Overrides of a recipe's keys, as NeMo's command line takes them.
class Keys {
 public:
  template <typename Value>
  void set(std::string_view key, const Value& value) {
    arguments.lines.push_back(fmt::format("{}={}", key, value));
  }
  void set(std::string_view key, bool value) { set(key, value ? "True" : "False"); }

  FrameworkArguments arguments;
};

void set_router(Keys& keys, const Model& model) {
  const Router& router = model.router;
  keys.set("model.config.moe_router_score_function", router.sigmoid ? "sigmoid" : "softmax");
  keys.set("model.config.moe_router_pre_softmax",
           !router.sigmoid && (router.all_scores || model.experts_per_token == 1));
  keys.set("model.config.moe_router_enable_expert_bias", router.expert_biases);
  if (router.groups > 0) {
    keys.set("model.config.moe_router_num_groups", router.groups);
    keys.set("model.config.moe_router_group_topk", router.groups_per_token);
  }
  if (router.scale != 1) keys.set("model.config.moe_router_topk_scaling_factor", router.scale);
}

void set_shape(Keys& keys, const Model& model) {
  keys.set("model.config.num_layers", model.layers);
  keys.set("model.config.hidden_size", model.hidden);
  keys.set("model.config.num_attention_heads", model.heads);
  keys.set("model.config.num_query_groups", model.key_value_heads());
  keys.set("model.config.ffn_hidden_size", model.inner());
  if (model.head_width > 0) keys.set("model.config.kv_channels", model.head_width);
  keys.set("model.config.gated_linear_unit", model.gated);
  keys.set("model.config.normalization",
           model.biases || model.has(Peculiarity::kLayerNorm) ? "LayerNorm" : "RMSNorm");
  keys.set("model.config.add_bias_linear", model.biases);
  keys.set("model.config.add_qkv_bias", model.biases || model.qkv_biases);
  keys.set("model.config.qk_layernorm", model.query_key_norms);
  if (!model.biases) {
    keys.set("model.config.attention_dropout", 0.0);
    keys.set("model.config.hidden_dropout", 0.0);
  }
  keys.set("model.config.share_embeddings_and_output_weights", model.tied_embeddings);
  keys.set("model.config.position_embedding_type", model.learned_positions ? "learned_absolute" : "rope");
  if (!model.learned_positions && model.rotary_base > 0)
    keys.set("model.config.rotary_base", static_cast<long>(model.rotary_base));
  if (!model.learned_positions) {
    keys.set("model.config.rotary_percent", model.rotary_share);
    keys.set("model.config.rotary_interleaved", model.rotary_pairs);
  }
  // No keys say these; they are the recipe's own.
  if (model.rotary_scaling > 0)
    keys.arguments.remarks.push_back(
        fmt::format("Positions are scaled by {} as Llama 3.1's are: take a recipe of such a model.",
                    model.rotary_scaling));
  keys.arguments.remarks.push_back(fmt::format("The MLP's activation is the recipe's: take a recipe with {}.",
                                               !model.gated      ? "GELU, as GPT-3's"
                                               : model.gelu_gate ? "a gate through GELU, as Gemma's"
                                                                 : "a gate through SiLU, as Llama's"));
  // No keys say these either; the framework's traits say of which there are recipes.
  if (const std::string words = peculiarity_words(model.peculiarities, {Peculiarity::kLayerNorm});
      !words.empty())
    keys.arguments.remarks.push_back(fmt::format("Take a recipe whose model has {}.", words));
  if (model.windowed())
    keys.arguments.lines.push_back(
        fmt::format("model.config.window_size={}", shell_quoted(fmt::format("[{},0]", model.window))));
  keys.set("model.config.seq_length", model.context);
  keys.set("data.seq_length", model.context);
  if (model.experts > 0) {
    keys.set("model.config.num_moe_experts", model.experts);
    keys.set("model.config.moe_router_topk", model.experts_per_token);
    if (model.expert_feed_forward > 0)
      keys.set("model.config.moe_ffn_hidden_size", model.expert_feed_forward);
    if (model.shared_feed_forward > 0)
      keys.set("model.config.moe_shared_expert_intermediate_size", model.shared_feed_forward);
    if (model.mixed())
      keys.arguments.lines.push_back(
          fmt::format("model.config.moe_layer_freq={}", shell_quoted(mixture_pattern(model))));
    set_router(keys, model);
    keys.set("model.config.moe_grouped_gemm", true);
    keys.set("model.config.moe_token_dispatcher_type", "alltoall");
  }
}

void set_precision(Keys& keys, const Job& job, EmittedPrecision emitted) {
  if (!emitted.remark.empty()) keys.arguments.remarks.push_back(std::move(emitted.remark));
  switch (emitted.precision) {
    case Precision::kFp32:
    case Precision::kTf32:
      keys.set("trainer.plugins.precision", "32");
      return;
    case Precision::kFp16:
      keys.set("trainer.plugins.precision", "16-mixed");
      break;
    case Precision::kFp8Hybrid:
    case Precision::kFp8E4m3:
    case Precision::kBf16:
      keys.set("trainer.plugins.precision", "bf16-mixed");
      break;
  }
  if (emitted.precision == Precision::kFp8Hybrid) keys.set("trainer.plugins.fp8", "hybrid");
  if (emitted.precision == Precision::kFp8E4m3) keys.set("trainer.plugins.fp8", "e4m3");
  keys.set("trainer.plugins.grad_reduce_in_fp32", job.fp32_gradients);
}

void set_layout(Keys& keys, const Plan& plan, Numbering numbering) {
  const Job& job = plan.job;
  keys.set("trainer.strategy.tensor_model_parallel_size", job.tensor);
  keys.set("trainer.strategy.pipeline_model_parallel_size", plan.pipeline_size());
  keys.set("trainer.strategy.context_parallel_size", job.context_parallel);
  if (job.context_parallel > 1)
    keys.set("model.config.cp_comm_type", job.context_exchange == ContextExchange::kRing ? "p2p" : "a2a");
  if (job.model.experts > 0) {
    keys.set("trainer.strategy.expert_model_parallel_size", job.expert_parallel);
    keys.set("trainer.strategy.expert_tensor_parallel_size", job.tensor);
  }
  if (even_layers(plan) == 0)
    keys.arguments.lines.push_back(fmt::format("trainer.strategy.pipeline_model_parallel_layout={}",
                                               shell_quoted(pipeline_layout(plan))));
  if (job.chunks > 1)
    keys.set("trainer.strategy.virtual_pipeline_model_parallel_size", job.chunks);
  else
    keys.set("trainer.strategy.virtual_pipeline_model_parallel_size", "None");
  keys.set("trainer.strategy.sequence_parallel", job.sequence_parallel);
  keys.set("trainer.strategy.use_tp_pp_dp_mapping", numbering == Numbering::kReplicasOutermost);
}

}  // namespace

FrameworkArguments nemo_arguments(const Plan& plan, const topology::ClusterFile& cluster, Numbering numbering,
                                  const std::vector<Node>& nodes) {
  const Job& job = plan.job;
  Keys keys;
  keys.set("trainer.num_nodes", nodes.size());
  keys.set("trainer.devices", nodes.front().devices.size());
  set_layout(keys, plan, numbering);
  set_shape(keys, job.model);
  keys.set("data.micro_batch_size", job.micro_batch);
  keys.set("data.global_batch_size", job.global_batch);
  if (job.overlap_tensor && job.tensor > 1) {
    keys.set("model.config.tp_comm_overlap", true);
    keys.arguments.remarks.emplace_back(kTensorOverlapNeeds);
  }
  if (job.recompute == Recompute::kSelective) keys.set("model.config.recompute_granularity", "selective");
  if (job.recompute == Recompute::kFull) {
    keys.set("model.config.recompute_granularity", "full");
    keys.set("model.config.recompute_method", job.recompute_layers > 0 ? "block" : "uniform");
    keys.set("model.config.recompute_num_layers", std::max(1, job.recompute_layers));
  }
  const bool replicas = plan.data_size() > 1;
  keys.set("trainer.strategy.ddp.overlap_grad_reduce", replicas && job.overlap_gradients);
  keys.set("trainer.strategy.ddp.overlap_param_gather", replicas && job.sharded() && job.overlap_parameters);
  keys.set("trainer.strategy.ddp.use_distributed_optimizer", replicas && job.sharded());
  keys.set("optim.config.use_distributed_optimizer", replicas && job.sharded());
  set_precision(keys, job, emitted_precision(plan, cluster));
  keys.arguments.remarks.push_back(
      fmt::format("Vocabulary {}: choose the recipe's tokenizer to match.", job.model.vocabulary));
  return std::move(keys.arguments);
}

}  // namespace tombolo::planner
