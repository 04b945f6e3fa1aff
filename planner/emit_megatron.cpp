// A plan as launch arguments for Megatron-LM, and what of it Megatron cannot express.
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"
#include "planner/planner.h"

namespace tombolo::planner {

namespace {

/// How Megatron numbers its ranks: by stage and then replica (its default order, tp-cp-ep-dp-pp), or by
/// replica and then stage (--use-tp-pp-dp-mapping).
enum class Mapping { kStagesOutermost, kReplicasOutermost };

struct Node {
  std::string host;
  std::vector<int> devices;  ///< in the order of Megatron's ranks
};

/// The nodes in the order that `mapping` needs, each contiguous; empty where a host's ranks are not.
std::vector<Node> nodes_of(const Plan& plan, Mapping mapping) {
  std::vector<const RankPlace*> order;
  for (const RankPlace& place : plan.ranks) order.push_back(&place);
  std::sort(order.begin(), order.end(), [mapping](const RankPlace* a, const RankPlace* b) {
    return mapping == Mapping::kStagesOutermost
               ? std::tuple(a->stage, a->replica, a->tensor) < std::tuple(b->stage, b->replica, b->tensor)
               : std::tuple(a->replica, a->stage, a->tensor) < std::tuple(b->replica, b->stage, b->tensor);
  });
  std::vector<Node> nodes;
  std::set<std::string> seen;
  for (const RankPlace* place : order) {
    if (nodes.empty() || nodes.back().host != place->host) {
      if (!seen.insert(place->host).second) return {};
      nodes.push_back({place->host, {}});
    }
    nodes.back().devices.push_back(place->device);
  }
  const bool equal = std::all_of(nodes.begin(), nodes.end(), [&](const Node& node) {
    return node.devices.size() == nodes.front().devices.size();
  });
  return equal ? nodes : std::vector<Node>{};
}

/// Hosts in the order of their first stage, for a plan that no mapping expresses.
std::vector<Node> nearest_nodes(const Plan& plan) {
  std::map<std::string, std::pair<int, int>> first;
  std::map<std::string, std::vector<int>> devices;
  for (const RankPlace& place : plan.ranks) {
    const auto at = std::pair(place.stage, place.replica);
    const auto [known, added] = first.emplace(place.host, at);
    if (!added) known->second = std::min(known->second, at);
    devices[place.host].push_back(place.device);
  }
  std::vector<Node> nodes;
  for (const auto& [host, place] : first) nodes.push_back({host, devices[host]});
  std::sort(nodes.begin(), nodes.end(),
            [&](const Node& a, const Node& b) { return first[a.host] < first[b.host]; });
  return nodes;
}

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

/// The arguments that older versions of Megatron have: only the first or the last stage may differ.
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

/// The Ethernet NIC that all hosts have under one name, for the frameworks' own sockets.
std::string common_ethernet(const Plan& plan, const topology::ClusterFile& cluster) {
  std::map<std::string, std::set<std::string>> hosts_with;
  std::set<std::string> hosts;
  for (const RankPlace& place : plan.ranks) {
    hosts.insert(place.host);
    if (const topology::Host* host = cluster.find_host(place.host))
      for (const auto& nic : host->nics)
        if (nic.kind == topology::NicKind::kTcp) hosts_with[nic.name].insert(place.host);
  }
  for (const auto& [nic, with] : hosts_with)
    if (with == hosts) return nic;
  return {};
}

std::string master_address(const std::string& name, const topology::ClusterFile& cluster) {
  if (const topology::Host* host = cluster.find_host(name))
    for (const auto& nic : host->nics)
      if (nic.kind == topology::NicKind::kTcp && !nic.addresses.empty()) return nic.addresses.front();
  return name;
}

/// torchrun gives local rank i device i; nodes whose devices are not 0, 1, 2, ... need them renumbered.
std::string visible_devices(const std::vector<Node>& nodes) {
  std::string cases;
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
    bool plain = true;
    for (std::size_t i = 0; i < nodes[rank].devices.size(); ++i)
      plain &= nodes[rank].devices[i] == static_cast<int>(i);
    if (!plain)
      cases +=
          fmt::format("  {}) export CUDA_VISIBLE_DEVICES={} ;;\n", rank, fmt::join(nodes[rank].devices, ","));
  }
  return cases.empty() ? cases : "case \"$NODE_RANK\" in\n" + cases + "esac\n";
}

/// For sh: nothing in it is expanded.
std::string shell_quoted(std::string_view text) {
  std::string out(1, '\'');
  for (const char one : text) {
    if (one == '\'')
      out += "'\\''";
    else
      out += one;
  }
  out += '\'';
  return out;
}

/// The cluster file for the plugin on every node, and the node's name in it where the machine has another.
std::string cluster_variables(const std::vector<Node>& nodes, const topology::ClusterFile& cluster,
                              const std::string& cluster_path) {
  std::string names, cases;
  for (const topology::Host& host : cluster.hosts)
    names += fmt::format("{}{}", names.empty() ? "" : "|", shell_quoted(host.name));
  for (std::size_t rank = 0; rank < nodes.size(); ++rank)
    cases += fmt::format("    {}) export TOMBOLO_HOST={} ;;\n", rank, shell_quoted(nodes[rank].host));
  return fmt::format(
      "# The plugin takes NICs and fabrics from the plan's cluster file: it must lie on every node.\n"
      "if [ -z \"$TOMBOLO_CLUSTER\" ]; then TOMBOLO_CLUSTER={}; fi\n"
      "export TOMBOLO_CLUSTER\n"
      "if [ ! -r \"$TOMBOLO_CLUSTER\" ]; then echo \"$0: cannot read $TOMBOLO_CLUSTER; copy the plan's "
      "cluster "
      "file to this node and set TOMBOLO_CLUSTER to its path\" >&2; exit 2; fi\n"
      "# This node's name in that file, where its host name is another.\n"
      "if [ -z \"$TOMBOLO_HOST\" ]; then case \"$(uname -n)\" in\n"
      "  {}) ;;\n"
      "  *) case \"$NODE_RANK\" in\n{}  esac ;;\n"
      "esac; fi\n",
      shell_quoted(cluster_path), names, cases);
}

/// What Megatron-LM has no words for; empty where it has all.
std::string beyond_megatron(const Plan& plan) {
  if (!plan.uniform())
    return "its replicas or its stages' tensor degrees differ; plan with equal ones (strategy megatron or "
           "holmes)";
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
  bool outermost_replicas = false;
  std::vector<Node> nodes = nodes_of(plan, Mapping::kStagesOutermost);
  if (nodes.empty()) {
    nodes = nodes_of(plan, Mapping::kReplicasOutermost);
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
  out += "#\n# Node ranks; each cluster's nodes are next to each other, so that whole stages stay inside:\n";
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
    const topology::Host* host = cluster.find_host(nodes[rank].host);
    out += fmt::format("#   NODE_RANK={}  {}{}  devices {}\n", rank, nodes[rank].host,
                       host ? fmt::format("  (cluster {})", host->cluster) : "",
                       fmt::join(nodes[rank].devices, ","));
  }
  out += "\nexport NCCL_NET_PLUGIN=libnccl-net-tombolo.so\nexport NCCL_NET=Tombolo\n";
  out += cluster_variables(nodes, cluster, cluster_path);
  if (plan.routing == "shared")
    out += "# The plan assumes one NIC kind for all; the plugin routes per peer, which is no slower.\n";
  if (const std::string nic = common_ethernet(plan, cluster); !nic.empty())
    out += fmt::format("export NCCL_SOCKET_IFNAME={0}\nexport GLOO_SOCKET_IFNAME={0}\n", nic);
  else
    out +=
        "# NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME: set them on each node to its Ethernet NIC; no name is "
        "common.\n";
  out += "export CUDA_DEVICE_MAX_CONNECTIONS=1\n" + visible_devices(nodes) + "\n";

  std::vector<std::string> arguments;
  const auto add = [&]<typename... Values>(fmt::format_string<Values...> text, Values&&... values) {
    arguments.push_back(fmt::format(text, std::forward<Values>(values)...));
  };
  add("torchrun --rdzv-backend static --nnodes {} --nproc-per-node {} --node-rank \"$NODE_RANK\"",
      nodes.size(), nodes.front().devices.size());
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
  if (plan.data_size() > 1 && job.shard_optimizer) add("--use-distributed-optimizer");
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
