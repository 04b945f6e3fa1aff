#include "bench/planner_eval/clusters.h"

#include <fmt/format.h>

namespace tombolo::bench {

using namespace planner;

topology::ClusterFile cluster_of(const std::vector<std::pair<Machines, Spec>>& machines,
                                 double bytes_per_second) {
  topology::ClusterFile cluster;
  for (const auto& [some, spec] : machines)
    for (int i = 0; i < some.hosts; ++i) {
      topology::Host host;
      host.name = fmt::format("{}-{}-{}", some.type, some.devices, i);
      host.cluster = "one";
      topology::Nic nic;
      nic.name = "eth";
      host.nics.push_back(nic);
      topology::Device device;
      device.name = some.type;
      device.kind = topology::DeviceKind::kGpu;
      device.flops_per_second = spec.flops;
      device.memory_bytes = spec.memory;
      host.devices.assign(static_cast<std::size_t>(some.devices), device);
      cluster.links.push_back({host.name, "eth", host.name, "eth", spec.inside, 0, false});
      cluster.hosts.push_back(host);
    }
  for (const auto& from : cluster.hosts)
    for (const auto& to : cluster.hosts)
      if (from.name != to.name)
        cluster.links.push_back({from.name, "eth", to.name, "eth", bytes_per_second, 20e-6, false});
  return cluster;
}

Job llama_job(int layers, int hidden, int heads, int multiple, int vocabulary, int rows) {
  Job job;
  Model& model = job.model;
  model.layers = layers;
  model.hidden = hidden;
  model.heads = heads;
  model.context = 2048;
  model.vocabulary = vocabulary;
  model.feed_forward = (8 * hidden / 3 + multiple - 1) / multiple * multiple;
  model.gated = true;
  model.biases = model.learned_positions = model.tied_embeddings = false;
  model.bytes_per_value = 2;
  job.global_batch = rows;
  job.tensor = 0;
  job.framework = Framework::kAny;
  job.fp32_gradients = false;
  job.reserve_bytes = 0;  // as the other searches count memory
  return job;
}

PlanOptions options_for(std::string_view strategy) {
  PlanOptions options;
  options.strategy = strategy;
  Job megatron;
  megatron.framework = Framework::kMegatron;
  megatron.fused_attention = false;  // or there would be nothing to recompute selectively
  options.savings = savings_of(megatron);
  return options;
}

}  // namespace tombolo::bench
