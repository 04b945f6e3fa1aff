// Writes a plan for DeepSpeed's launcher, its configuration and its PipelineModule.
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "planner/launch/emitters.h"
#include "planner/launch/launch_nodes.h"
#include "planner/strategies/strategy.h"

namespace tombolo::planner {
namespace {

/// What of the plan DeepSpeed cannot express; empty where it can express all.
std::string beyond_deepspeed(const Plan& plan) {
  if (!plan.uniform())
    return fmt::format(
        "its replicas or its stages' tensor degrees differ; plan with equal ones (strategy {})",
        alternatives(strategy_names(
            {&StrategyCapabilities::uneven_replicas, &StrategyCapabilities::tensor_degree_per_type}, false)));
  if (plan.job.schedule != Schedule::kOneForwardOneBackward)
    return fmt::format(
        "its pipeline engine runs 1f1b only, and the plan's schedule is {}; plan with --schedule 1f1b",
        schedule_name(plan.job.schedule));
  return {};
}

Json configuration(const Job& job, const Plan& plan) {
  Json config;
  config["train_batch_size"] = job.global_batch;
  config["train_micro_batch_size_per_gpu"] = job.micro_batch;
  config["gradient_accumulation_steps"] = plan.micro_batches();
  if (job.model.bytes_per_value == 2) config["bf16"]["enabled"] = true;
  config["zero_optimization"]["stage"] = job.sharded() && plan.data_size() > 1 ? 1 : 0;
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
  if (const std::string why = beyond_deepspeed(plan); !why.empty())
    fail(Cause::kUnsupported, "DeepSpeed cannot express this plan: {}", why);
  const Job& job = plan.job;
  std::string out = fmt::format(
      "#!/bin/sh\n"
      "# DeepSpeed with Tombolo's NCCL plugin: {} stages x {} replicas x {} tensor ranks, strategy {}.\n"
      "# Run on one machine that reaches the nodes by ssh: sh this-file train.py ...\n",
      plan.pipeline_size(), plan.data_size(), job.tensor, plan.strategy);
  std::vector<Node> nodes = nodes_of(plan, Numbering::kStagesOutermost);
  if (nodes.empty()) {
    nodes = nearest_nodes(plan);
    out +=
        "#\n# NOT EXPRESSIBLE: DeepSpeed numbers its ranks by stage and then replica, a node's in a row, and "
        "this "
        "plan gives\n# some node other places. Below is the nearest: hosts in the order of their first "
        "stage.\n";
  }
  std::vector<int> layers;
  for (const Stage& stage : plan.stages()) layers.push_back(stage.layers);
  const bool even = std::ranges::all_of(layers, [&](int count) { return count == layers.front(); });
  out += fmt::format("#\n# In the program: PipelineModule(num_stages={}, partition_method=\"{}\"{}).\n",
                     plan.pipeline_size(), even ? "uniform" : "parameters",
                     job.recompute == Recompute::kNone ? "" : ", activation_checkpoint_interval=1");
  if (!even)
    out += fmt::format(
        "# NOT EXPRESSIBLE: layers per stage {}; PipelineModule has no list of them. Its nearest method "
        "balances "
        "parameters.\n",
        fmt::join(layers, ", "));
  if (job.tensor > 1)
    out +=
        fmt::format("# Tensor parallelism of degree {} is the program's (its mpu), innermost.\n", job.tensor);
  out += "#\n# Nodes, in the order of their ranks:\n" + node_comments(nodes, cluster, "") + '\n' +
         common_environment(plan, cluster) + cluster_environment(nodes, cluster, cluster_path, "");
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
  out += "END\ncat > \"$folder/config.json\" <<'END'\n" + configuration(job, plan).dump(1) + "\nEND\n";
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
