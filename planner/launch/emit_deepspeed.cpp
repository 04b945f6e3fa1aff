// Writes a plan for DeepSpeed's launcher, its configuration and its PipelineModule.
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "planner/launch/emitted_precision.h"
#include "planner/launch/emitters.h"
#include "planner/launch/framework_arguments.h"
#include "planner/launch/launch_nodes.h"
#include "planner/launch/network_environment.h"
#include "planner/launch/torchrun_script.h"

namespace tombolo::planner {
namespace {

// Without it nothing says how long a step takes, by which plans are made anew (simulate/deepspeed_log.cpp).
constexpr int kStepsPerPrint = 10;

Json configuration(const Plan& plan, const EmittedPrecision& emitted) {
  const Job& job = plan.job;
  Json config;
  config["train_batch_size"] = job.global_batch;
  config["train_micro_batch_size_per_gpu"] = job.micro_batch;
  config["gradient_accumulation_steps"] = plan.micro_batches();
  config["steps_per_print"] = kStepsPerPrint;
  if (emitted.precision == Precision::kBf16) config["bf16"]["enabled"] = true;
  if (emitted.precision == Precision::kFp16) config["fp16"]["enabled"] = true;
  if (job.model.bytes_per_value == 2)
    config["data_types"]["grad_accum_dtype"] =
        job.fp32_gradients ? "fp32" : precision_name(emitted.precision);
  // The stages of ZeRO are numbered in the order of Sharding.
  config["zero_optimization"]["stage"] = plan.data_size() > 1 ? static_cast<int>(job.sharding) : 0;
  if (job.sharded() && plan.data_size() > 1)
    config["zero_optimization"]["overlap_comm"] = job.overlap_gradients;
  if (job.recompute != Recompute::kNone) {
    // The interval of PipelineModule decides how often activations are checkpointed; see the script's
    // comment.
    config["activation_checkpointing"]["partition_activations"] = job.tensor > 1;
  }
  return config;
}

}  // namespace

std::string emit_deepspeed(const Plan& plan, const topology::ClusterFile& cluster,
                           const std::string& cluster_path) {
  const Job& job = plan.job;
  const EmittedPrecision emitted = emitted_precision(plan, cluster);
  if (is_fp8(emitted.precision))
    fail(Cause::kUnsupported,
         "DeepSpeed's configuration has no fp8; plan in bf16, or for Megatron-LM (--framework megatron)");
  std::string out = fmt::format(
      "#!/bin/sh\n"
      "# DeepSpeed with Tombolo's NCCL plugin: {} x {}, strategy {}.\n"
      "# Run on one machine that reaches the nodes by ssh: sh this-file train.py ...\n",
      plan.shape(), counted(job.tensor, "tensor rank"), plan.strategy);
  const std::vector<Node> nodes =
      torchrun_nodes(plan, {Numbering::kStagesOutermost}, false, "DeepSpeed").nodes;
  if (job.sharding > Sharding::kOptimizer)
    out += fmt::format(
        "#\n# In the program: the model by itself, for PipelineModule does not shard {}{}.\n",
        sharding_name(job.sharding),
        job.recompute == Recompute::kNone ? "" : ", with deepspeed.checkpointing around each layer");
  else
    // By the layers' type, for "uniform" would count the embedding, the norm and the head as layers too.
    out += fmt::format(
        "#\n# In the program: PipelineModule(num_stages={}, partition_method=\"type:LAYER\"{}), LAYER being "
        "the\n"
        "# name of the class of the model's layers: each stage gets {} of them.\n",
        plan.pipeline_size(), job.recompute == Recompute::kNone ? "" : ", activation_checkpoint_interval=1",
        even_layers(plan));
  if (job.tensor > 1)
    out +=
        fmt::format("# Tensor parallelism of degree {} is the program's (its mpu), innermost.\n", job.tensor);
  if (const std::string details = model_details(job.model); !details.empty())
    out += fmt::format("# Its model must have {}.\n", details);
  if (!emitted.remark.empty()) out += "# " + emitted.remark + '\n';
  out += "#\n# Nodes, in the order of their ranks:\n" + node_comments(nodes, cluster, "") + '\n' +
         network_environment(plan, cluster, false) + cluster_environment(nodes, cluster, cluster_path, "");
  out +=
      "\nfolder=$(mktemp -d) || exit 1\n"
      "trap 'rm -rf \"$folder\"' EXIT\n"
      "cat > \"$folder/hosts\" <<'END'\n";
  std::string include;
  for (const Node& node : nodes) {
    // The host file lists slots up to the highest device that is used; the launcher drops those that
    // --include leaves out.
    const int slots = *std::ranges::max_element(node.devices) + 1;
    out += fmt::format("{} slots={}\n", node.host, slots);
    include += fmt::format("{}{}:{}", include.empty() ? "" : "@", node.host, fmt::join(node.devices, ","));
  }
  out += "END\ncat > \"$folder/config.json\" <<'END'\n" + configuration(plan, emitted).dump(1) + "\nEND\n";
  out +=
      "# What the launcher passes on to the nodes.\n"
      "DS_ENV_FILE=$folder/environment; export DS_ENV_FILE\n"
      "env | grep -E '^(NCCL_[A-Z0-9_]*|GLOO_SOCKET_IFNAME|TOMBOLO_[A-Z_]*|"
      "LD_LIBRARY_PATH)=' > \"$DS_ENV_FILE\"\n";
  out += fmt::format(
      "deepspeed --hostfile \"$folder/hosts\" --include {} \\\n  --master_addr {} --master_port 29500 \\\n"
      "  \"$@\" --deepspeed --deepspeed_config \"$folder/config.json\"\n",
      shell_quoted(include), shell_quoted(master_address(nodes.front().host, cluster)));
  return out;
}

}  // namespace tombolo::planner
