// Clusters and plans for the planner's tests.
#pragma once

#include <string>
#include <vector>

#include "planner/plan/layer_split.h"
#include "planner/plan/plan.h"
#include "topology/files/cluster_file.h"

namespace tombolo::planner::testing {

/// A cluster: every host has a NIC "fast" of `kind`, which reaches only this cluster (unless it is TCP), and
/// a NIC "eth" that reaches every host.
struct ClusterSpec {
  std::string name;
  int hosts = 1;
  int devices = 1;
  topology::NicKind kind = topology::NicKind::kTcp;
  double fast_bytes_per_second = 0;
  double flops_per_second = 1e9;
  double memory_bytes = 0;
};

inline void add_links(topology::ClusterFile& cluster, const char* nic, double speed, double latency,
                      bool inside_cluster) {
  for (const auto& from : cluster.hosts)
    for (const auto& to : cluster.hosts) {
      if (from.name == to.name || (inside_cluster && from.cluster != to.cluster)) continue;
      if (speed > 0) cluster.links.push_back({from.name, nic, to.name, nic, speed, latency, true});
    }
}

/// Hosts are named "<cluster><number>", from 0.
inline topology::ClusterFile make_cluster(const std::vector<ClusterSpec>& specs,
                                          double ethernet_bytes_per_second, double latency = 0) {
  topology::ClusterFile cluster;
  for (const ClusterSpec& spec : specs) {
    topology::ClusterFile inside;
    for (int i = 0; i < spec.hosts; ++i) {
      topology::Host host;
      host.name = spec.name + std::to_string(i);
      host.cluster = spec.name;
      if (spec.kind != topology::NicKind::kTcp) {
        topology::Nic fast;
        fast.name = "fast";
        fast.kind = spec.kind;
        fast.fabric = "fabric-" + spec.name;
        host.nics.push_back(fast);
      }
      topology::Nic ethernet;
      ethernet.name = "eth";
      host.nics.push_back(ethernet);
      topology::Device device;
      device.name = "test";
      device.flops_per_second = spec.flops_per_second;
      device.memory_bytes = spec.memory_bytes;
      host.devices.assign(static_cast<std::size_t>(spec.devices), device);
      inside.hosts.push_back(host);
    }
    if (spec.kind != topology::NicKind::kTcp)
      add_links(inside, "fast", spec.fast_bytes_per_second, latency, true);
    cluster.hosts.insert(cluster.hosts.end(), inside.hosts.begin(), inside.hosts.end());
    cluster.links.insert(cluster.links.end(), inside.links.begin(), inside.links.end());
  }
  add_links(cluster, "eth", ethernet_bytes_per_second, latency, false);
  return cluster;
}

inline Model small_model(int layers) {
  Model model;
  model.name = "test";
  model.layers = layers;
  model.hidden = 64;
  model.heads = 4;
  model.context = 32;
  model.vocabulary = 16;
  return model;
}

/// Layers of 4 experts, of which each token goes to 2, with half the usual inner width.
inline Model mixture_model(int layers) {
  Model model = small_model(layers);
  model.biases = false;
  model.experts = 4;
  model.experts_per_token = 2;
  model.expert_feed_forward = 2 * model.hidden;
  return model;
}

/// Rank r takes stage r / data and replica r % data, equal layers; ranks on hosts[r], each on its own device.
inline Plan simple_plan(const Model& model, const std::vector<std::string>& hosts, int pipeline, int data,
                        int micro_batches, int micro_batch = 1) {
  Plan plan;
  plan.strategy = "test";
  plan.routing = "per-peer";
  plan.job.model = model;
  plan.job.global_batch = micro_batches * micro_batch * data;
  plan.job.micro_batch = micro_batch;
  plan.job.pipeline = pipeline;
  plan.job.data = data;
  plan.pipelines = equal_pipelines(
      plan.job, to_stages(std::vector<int>(static_cast<std::size_t>(pipeline), model.layers / pipeline)));
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    int device = 0;
    for (std::size_t other = 0; other < rank; ++other) device += hosts[other] == hosts[rank];
    plan.ranks.push_back({hosts[rank], device, static_cast<int>(rank) / data, static_cast<int>(rank) % data});
  }
  return plan;
}

}  // namespace tombolo::planner::testing
