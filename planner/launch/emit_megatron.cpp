// Writes a plan as launch arguments for Megatron-LM, and says what of it Megatron cannot express.
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "planner/launch/emitters.h"
#include "planner/launch/launch_nodes.h"
#include "planner/strategies/strategy.h"

namespace tombolo::planner {

namespace {

std::string layout_text(const Plan& plan) {
  std::string text;
  const std::vector<Stage>& stages = plan.stages();
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    if (stage > 0) text += '|';
    if (stage == 0) text += 'E';
    text += fmt::format("t*{}", stages[stage].layers);
    if (stage + 1 == stages.size()) text += 'L';
  }
  return text;
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

/// What of the plan Megatron-LM cannot express; empty where it can express all.
std::string beyond_megatron(const Plan& plan) {
  if (!plan.uniform())
    return fmt::format(
        "its replicas or its stages' tensor degrees differ; plan with equal ones (strategy {})",
        alternatives(strategy_names(
            {&StrategyCapabilities::uneven_replicas, &StrategyCapabilities::tensor_degree_per_type}, false)));
  if (plan.job.schedule == Schedule::kGPipe || plan.job.schedule == Schedule::kZeroBubbleH1)
    return fmt::format("it has no {} schedule; take 1f1b or interleaved", schedule_name(plan.job.schedule));
  return {};
}

}  // namespace

std::string emit_megatron(const Plan& plan, const topology::ClusterFile& cluster,
                          const std::string& cluster_path) {
  const Job& job = plan.job;
  const Model& model = job.model;
  std::string out = fmt::format(
      "#!/bin/sh\n"
      "# Megatron-LM with Tombolo's NCCL plugin: {} stages x {} replicas, strategy {}.\n"
      "# Run on every node with NODE_RANK set, for example: NODE_RANK=0 sh this-file pretrain_gpt.py "
      "--data-path ...\n",
      plan.pipeline_size(), plan.data_size(), plan.strategy);

  if (const std::string why = beyond_megatron(plan); !why.empty())
    fail(Cause::kUnsupported, "Megatron-LM cannot express this plan: {}", why);
  // torchrun numbers the processes of a node consecutively, and Megatron assumes that every node has equally
  // many.
  const auto usable = [&](Numbering numbering) {
    std::vector<Node> found = nodes_of(plan, numbering);
    return equally_large(found) ? found : std::vector<Node>{};
  };
  std::vector<Node> nodes = usable(Numbering::kStagesOutermost);
  bool outermost_replicas = false;
  if (nodes.empty()) {
    nodes = usable(Numbering::kReplicasOutermost);
    outermost_replicas = !nodes.empty();
  }
  if (nodes.empty()) {
    nodes = nearest_nodes(plan);
    out +=
        "#\n# NOT EXPRESSIBLE: torchrun numbers a node's processes in a row, and this plan gives some node "
        "places\n"
        "# that are not in a row in either of Megatron's orders, or nodes unequal numbers of ranks. Below is "
        "the\n"
        "# nearest: hosts in the order of their first stage.\n";
  }
  out += "#\n# Node ranks; each cluster's nodes are next to each other, so that whole stages stay inside:\n" +
         node_comments(nodes, cluster, "NODE_RANK=") + '\n' + common_environment(plan, cluster) +
         cluster_environment(nodes, cluster, cluster_path, "$NODE_RANK") +
         "export CUDA_DEVICE_MAX_CONNECTIONS=1\n" + visible_devices(nodes, "$NODE_RANK", false) +
         processes_of_node(nodes) + '\n';

  std::vector<std::string> arguments;
  const auto add = [&]<typename... Values>(fmt::format_string<Values...> text, Values&&... values) {
    arguments.push_back(fmt::format(text, std::forward<Values>(values)...));
  };
  add("torchrun --rdzv-backend static --nnodes {} --nproc-per-node \"$PROCESSES\" --node-rank \"$NODE_RANK\"",
      nodes.size());
  add("--master-addr {} --master-port 29500 \"$@\"", master_address(nodes.front().host, cluster));
  add("--tensor-model-parallel-size {} --pipeline-model-parallel-size {}", job.tensor, plan.pipeline_size());
  add("--num-layers {} --hidden-size {} --num-attention-heads {}", model.layers, model.hidden, model.heads);
  if (model.inner() != 4 * model.hidden) add("--ffn-hidden-size {}", model.inner());
  if (model.key_value_heads() != model.heads)
    add("--group-query-attention --num-query-groups {}", model.key_value_heads());
  if (model.gated) add("--swiglu");
  if (!model.biases) add("--normalization RMSNorm --disable-bias-linear");
  if (!model.tied_embeddings) add("--untie-embeddings-and-output-weights");
  add("--seq-length {0} --max-position-embeddings {0} --position-embedding-type {1}", model.context,
      model.learned_positions ? "learned_absolute" : "rope");
  add("--micro-batch-size {} --global-batch-size {}", job.micro_batch, job.global_batch);
  const bool even = std::ranges::all_of(
      plan.stages(), [&](const Stage& stage) { return stage.layers == plan.stages().front().layers; });
  if (job.chunks > 1 && even) add("--num-layers-per-virtual-pipeline-stage {}", plan.stages().front().layers);
  if (!even) add("--pipeline-model-parallel-layout \"{}\"", layout_text(plan));
  if (outermost_replicas) add("--use-tp-pp-dp-mapping");
  if (job.sequence_parallel) add("--sequence-parallel");
  if (job.recompute == Recompute::kSelective) add("--recompute-activations");
  if (job.recompute == Recompute::kFull)
    add("--recompute-granularity full --recompute-method uniform --recompute-num-layers 1");
  if (plan.data_size() > 1 && job.overlap_gradients) add("--overlap-grad-reduce");
  if (plan.data_size() > 1 && job.sharded()) add("--use-distributed-optimizer");
  if (model.bytes_per_value == 2) add("--bf16");
  out += fmt::format("exec {}\n", fmt::join(arguments, " \\\n  "));

  out +=
      fmt::format("\n# Vocabulary {}: choose the tokenizer (and --make-vocab-size-divisible-by) to match.\n",
                  model.vocabulary);
  if (!even) {
    const std::string older = first_last_arguments(plan.stages());
    out +=
        older.empty()
            ? "# Versions of Megatron without --pipeline-model-parallel-layout cannot express this split.\n"
            : fmt::format("# Versions without --pipeline-model-parallel-layout take instead: {}\n", older);
  }
  out += "# Megatron has no word for the NIC kind of a group: the plugin routes each connection by itself.\n";
  return out;
}

}  // namespace tombolo::planner
