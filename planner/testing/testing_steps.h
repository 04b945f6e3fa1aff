// Random plans on hosts that are alike, or all but, for tests of what a step takes.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include "planner/model/index.h"
#include "planner/testing/testing.h"

namespace tombolo::planner::testing {

template <typename Value>
Value one_of(std::mt19937_64& random, std::initializer_list<Value> values) {
  return values.begin()[random() % values.size()];
}

/// Clusters of hosts that are alike: GPUs, rails of InfiniBand inside a cluster, or slower also between them,
/// and one Ethernet NIC, whose links to other clusters may share one. Of the rails the file may list only the
/// first one's links.
inline topology::ClusterFile alike_hosts(std::mt19937_64& random, int clusters, int hosts, int devices) {
  topology::ClusterFile file;
  const int rails = one_of(random, {1, 2, 4});
  const bool spine = random() % 3 == 0, first_listed = random() % 3 == 0;
  for (int cluster = 0; cluster < clusters; ++cluster)
    for (int number = 0; number < hosts; ++number) {
      topology::Host& host = file.hosts.emplace_back();
      host.cluster = std::string(1, static_cast<char>('a' + cluster));
      host.name = host.cluster + std::to_string(number);
      topology::Nic nic;
      for (int rail = 0; rail < rails; ++rail) {
        nic.name = "ib" + std::to_string(rail);
        nic.kind = topology::NicKind::kInfiniBand;
        nic.fabric = spine ? "spine" : host.cluster;
        host.nics.push_back(nic);
      }
      topology::Nic ethernet;
      ethernet.name = "eth";
      host.nics.push_back(ethernet);
      topology::Device device;
      device.name = "test";
      device.kind = topology::DeviceKind::kGpu;
      device.flops_per_second = 1e9;
      device.memory_bytes_per_second = 1e9;
      host.devices.assign(at(devices), device);
    }
  const double inside = one_of(random, {1e6, 1e7, 1e9}), between = one_of(random, {2e5, 1e6});
  for (const auto& from : file.hosts)
    for (const auto& to : file.hosts)
      for (const topology::Nic& nic : from.nics) {
        const bool rail = nic.name != "eth", same = from.cluster == to.cluster;
        if (rail && !same && !spine) continue;
        if (rail && nic.name != "ib0" && first_listed) continue;
        file.links.push_back({from.name, nic.name, to.name, nic.name,
                              from.name == to.name ? 3e7
                              : rail && same       ? inside
                                                   : between,
                              1e-5, true});
      }
  if (random() % 2 == 0)
    for (int from = 0; from < clusters; ++from)
      for (int to = 0; to < clusters; ++to) {
        if (from == to) continue;
        topology::SharedLink& shared = file.shared_links.emplace_back();
        shared.name = std::to_string(from) + std::to_string(to);
        for (int number = 0; number < hosts; ++number) {
          shared.from.push_back({file.hosts[at(from * hosts + number)].name, "eth"});
          shared.to.push_back({file.hosts[at(to * hosts + number)].name, "eth"});
        }
        shared.bytes_per_second = 1.5 * between;
      }
  return file;
}

/// Has one thing differ from all that it was like.
inline void spoil(std::mt19937_64& random, topology::ClusterFile& file) {
  topology::Host& host = file.hosts[random() % file.hosts.size()];
  switch (random() % 3) {
    case 0:
      host.devices[random() % host.devices.size()].flops_per_second *= 0.8;
      return;
    case 1:
      file.links[random() % file.links.size()].bytes_per_second *= 0.5;
      return;
    default:
      file.links[random() % file.links.size()].latency_seconds *= 40;
  }
}

/// A plan that takes all devices, with a random way to train.
inline Plan random_plan(std::mt19937_64& random, const topology::ClusterFile& file) {
  const int devices = static_cast<int>(file.hosts.front().devices.size());
  const int tensor = one_of(random, {1, 1, devices, std::max(1, devices / 2)});
  const int slots = static_cast<int>(file.hosts.size()) * devices / tensor;
  int stages = one_of(random, {1, 2, 3, 4});
  if (slots % stages != 0) stages = 1;
  const int replicas = slots / stages;
  const bool experts = random() % 4 == 0;
  const int chunks = stages > 1 && random() % 4 == 0 ? 2 : 1;
  const int micro_batches = chunks > 1 ? 2 * stages : 1 + static_cast<int>(random() % 4);
  Plan plan = simple_plan(experts ? mixture_model(24) : small_model(24), {}, stages, replicas, micro_batches);
  Job& job = plan.job;
  if (experts) {
    job.model.dense_first = one_of(random, {0, 0, 6, 12});
    job.model.moe_every = one_of(random, {1, 1, 2});
  }
  job.framework = one_of(random, {Framework::kTombolo, Framework::kMegatron, Framework::kMegatron,
                                  Framework::kDeepSpeed, Framework::kTorchTitan, Framework::kAny});
  job.tensor = tensor;
  job.chunks = chunks;
  if (chunks > 1) job.schedule = Schedule::kInterleaved;
  if (chunks == 1 && random() % 4 == 0) job.schedule = Schedule::kZeroBubbleH1;
  job.sequence_parallel = tensor > 1 && random() % 2 == 0;
  job.overlap_gradients = random() % 3 > 0;
  job.overlap_parameters = random() % 2 == 0;
  job.model.tied_embeddings = random() % 2 == 0;
  job.sharding =
      one_of(random, {Sharding::kNone, Sharding::kOptimizer, Sharding::kGradients, Sharding::kParameters});
  job.recompute = one_of(random, {Recompute::kNone, Recompute::kFull});
  for (const int parts : {4, 2})
    if (replicas % parts == 0 && random() % 4 == 0) {
      job.context_parallel = parts;
      job.context_exchange = one_of(random, {ContextExchange::kRing, ContextExchange::kAllToAll});
    }
  for (const int parts : {4, 2})
    if (experts && replicas % parts == 0 && random() % 2 == 0) job.expert_parallel = parts;
  // As DeepSpeed's pipeline engine sends, or Megatron-LM and torch's pipelines do.
  if (job.schedule == Schedule::kOneForwardOneBackward && random() % 2 == 0)
    job.sends = job.context_parallel == 1 && job.expert_parallel == 1 &&
                        job.sharding < Sharding::kGradients && random() % 2 == 0
                    ? StageSends::kInTurn
                    : StageSends::kTogether;
  const std::vector<int> layers(at(stages * chunks), 24 / (stages * chunks));
  std::vector<Stage> cut = to_stages(layers);
  for (Stage& stage : cut) stage.tensor = tensor;
  plan.pipelines = equal_pipelines(job, cut);
  const bool stages_outermost = random() % 2 == 0;
  std::vector<int> places(at(slots));
  for (int slot = 0; slot < slots; ++slot) places[at(slot)] = slot;
  if (random() % 4 == 0) std::ranges::shuffle(places, random);
  for (const int place : places)
    for (int i = 0; i < tensor; ++i) {
      const int slot = static_cast<int>(plan.ranks.size()) / tensor, device = place * tensor + i;
      plan.ranks.push_back({file.hosts[at(device / devices)].name, device % devices,
                            stages_outermost ? slot / replicas : slot % stages,
                            stages_outermost ? slot % replicas : slot / stages, i});
    }
  if (job.framework == Framework::kAny && chunks == 1 && job.context_parallel == 1 &&
      job.expert_parallel == 1 && job.sharding < Sharding::kGradients && random() % 2 == 0)
    plan.pipelines.back().rows += plan.pipelines.back().micro_batch;
  return plan;
}

}  // namespace tombolo::planner::testing
