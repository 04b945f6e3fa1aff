#include "planner/cost/costs.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "planner/cost/collective.h"
#include "planner/cost/slot_parameters.h"
#include "planner/model/index.h"
#include "planner/model/replica_exchange.h"

namespace tombolo::planner {

namespace {

/// An all-reduce of `bytes` by a ring among the ranks of a slot, with the shares of their links that the
/// software reaches. `group` learns on how many hosts they are.
TensorReduce tensor_reduce(const Plan& plan, const ClusterView& view, const std::vector<int>& ranks,
                           double bytes, const ComputeProfile& profile, LayerGroup& group) {
  if (ranks.size() < 2) return {};
  CollectiveLink bytes_alone{static_cast<int>(ranks.size())}, hops_alone = bytes_alone;
  int crossings = 0;
  const NicUse nics = traits(plan.job.framework).nics;
  // A ring crosses between two hosts through the NICs of all ranks there.
  const auto ranks_on = [&](const std::string& host) {
    return static_cast<int>(
        std::ranges::count_if(ranks, [&](int rank) { return plan.ranks[at(rank)].host == host; }));
  };
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::string &here = plan.ranks[at(ranks[i])].host,
                      &there = plan.ranks[at(ranks[(i + 1) % ranks.size()])].host;
    const int from = view.host_index(here), to = view.host_index(there);
    const Path& path = view.path(from, to);
    const double share = path.inside_host ? profile.inside_share : profile.network_share;
    const double rate = path.inside_host ? path.bytes_per_second
                                         : view.together(from, to, ranks_on(here), ranks_on(there), nics);
    if (rate > 0) bytes_alone.seconds_per_byte = std::max(bytes_alone.seconds_per_byte, 1 / (rate * share));
    hops_alone.hop_seconds = std::max(hops_alone.hop_seconds, path.latency_seconds);
    if (!path.inside_host) ++crossings;
  }
  group.hosts = std::max(1, crossings);
  return {collective_seconds(Collective::kAllReduce, bytes, bytes_alone) +
              2 * (group.hosts - 1) * profile.network_hop_seconds,
          collective_seconds(Collective::kAllReduce, bytes, hops_alone) +
              2 * (group.tensor - group.hosts) * profile.hop_seconds};
}

/// Of the replicas in groups of `parts`, the ranks of those in the group of these ranks, at the same slot, by
/// replica; none where groups are of one, and in a part of a plan, which has no other replicas.
std::vector<std::vector<int>> peers_of(const Plan& plan, const std::vector<int>& ranks, int parts) {
  const RankPlacement& place = plan.ranks[at(ranks.front())];
  const int begin = place.replica / parts * parts;
  std::vector<std::vector<int>> peers;
  if (parts < 2 || begin + parts > plan.data_size()) return peers;
  peers.resize(at(parts), std::vector<int>(ranks.size()));
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank)
    if (const RankPlacement& one = plan.ranks[rank];
        one.stage == place.stage && one.replica >= begin && one.replica < begin + parts)
      peers[at(one.replica - begin)][at(one.tensor)] = static_cast<int>(rank);
  return peers;
}

/// The slowest link of a ring of peers on one host, for one of the ranks that share a layer.
CollectiveLink inside_link(const ClusterView& view, int host, std::size_t peers,
                           const ComputeProfile& profile) {
  CollectiveLink link{static_cast<int>(peers)};
  const Path& path = view.path(host, host);
  if (const double rate = path.bytes_per_second * profile.inside_share; rate > 0)
    link.seconds_per_byte = 1 / rate;
  link.hop_seconds = path.latency_seconds + profile.hop_seconds;
  return link;
}

/// The slots of peers.
std::vector<SlotMember> members_of(const Plan& plan, const ClusterView& view,
                                   const std::vector<std::vector<int>>& peers) {
  std::vector<SlotMember> members;
  for (const std::vector<int>& ranks : peers)
    members.push_back(
        {ranks.front(), view.host_index(plan.ranks[at(ranks.front())].host), static_cast<int>(ranks.size())});
  return members;
}

/// Whether a replica's pipeline has several stages, on several hosts.
bool pipeline_over_hosts(const Plan& plan, const RankPlacement& place) {
  return plan.pipeline_size(place.replica) > 1 &&
         std::ranges::any_of(plan.ranks, [&](const RankPlacement& one) {
           return one.replica == place.replica && one.host != place.host;
         });
}

PassSeconds operator*(double factor, const PassSeconds& pass) {
  return {factor * pass.forward, factor * pass.backward_input, factor * pass.backward_weights};
}

void add(PassSeconds& sum, const PassSeconds& more) {
  sum.forward += more.forward;
  sum.backward_input += more.backward_input;
  sum.backward_weights += more.backward_weights;
}

/// A device of a slot, and what it attains.
struct RankDevice {
  const topology::Device* device = nullptr;
  DeviceSpeeds speeds;
};

bool alike(const RankDevice& one, const RankDevice& other) {
  return one.device->name == other.device->name && one.device->kind == other.device->kind &&
         one.speeds.flops_per_second == other.speeds.flops_per_second &&
         one.speeds.memory_bytes_per_second == other.speeds.memory_bytes_per_second &&
         one.speeds.fp8_flops_per_second == other.speeds.fp8_flops_per_second;
}

/// The times that were measured on the slowest of these devices.
PassSeconds measured(const Job& job, const std::vector<std::string_view>& devices, std::string_view kind,
                     int tensor, int rows, double& update) {
  LayerTimes slowest;
  for (const std::string_view device : devices) {
    const auto times = job.profile->times(device, kind, tensor, rows);
    if (!times)
      fail(Cause::kInvalidUsage,
           "the profile has no times of kind \"{}\" on device \"{}\" shared by {} ranks; measure them, or "
           "plan with the degrees that were measured",
           kind, device, tensor);
    if (times->forward + times->backward >= slowest.forward + slowest.backward) slowest = *times;
  }
  update += slowest.update;
  return {slowest.forward, slowest.backward / 2, slowest.backward / 2};
}

/// What the backward pass computes again, as a share of a layer's forward pass. Selective recomputation takes
/// the share that attention's core has of a layer's FLOPs; on the bundled trainer's GPUs it is what attention
/// does in any case.
double recomputed_share(const Job& job) {
  switch (job.recompute) {
    case Recompute::kNone:
      return 0;
    case Recompute::kSelective:
      return job.on_cuda()
                 ? 0
                 : job.model.layers * job.model.attention_core_flops() / job.model.layers_forward_flops();
    case Recompute::kFull:
      return 1;
  }
  return 0;
}

/// The bytes that the update moves per parameter that it changes: Adam reads a parameter, its gradient and
/// both moments, and writes all but the gradient; a master copy is read and written too, and on the bundled
/// trainer's GPUs in place of the parameter, which is written alone.
double update_bytes(const Job& job) {
  const double value = job.model.bytes_per_value;
  const bool master = value < 4;
  return (master && job.on_cuda() ? 1 : 2) * value + (master ? 8 : 0) + 4.0 * job.moment_bytes +
         job.gradient_bytes();
}

/// Replaces the estimates by the profile's measurements.
void apply_profile(SlotCosts& costs, const Plan& plan, const Job& job, const RankPlacement& place,
                   const std::vector<std::string_view>& devices, int tensor) {
  const Profile& profile = *job.profile;
  const Pipeline& pipeline = plan.pipelines[at(place.replica)];
  const int slots = plan.pipeline_size(place.replica), rows = pipeline.micro_batch;
  const auto known = [&](std::string_view kind) {
    return std::ranges::any_of(profile.measurements, [&](const auto& one) { return one.kind == kind; });
  };
  if (profile.recompute != Recompute::kNone && profile.recompute != job.recompute)
    fail(
        Cause::kInvalidUsage,
        "the profile was measured with recomputation {}, but the job has {}; plan with the same (--recompute "
        "{}), or measure without any",
        recompute_name(profile.recompute), recompute_name(job.recompute), recompute_name(profile.recompute));
  const auto recomputed = [&](PassSeconds pass) {
    if (job.recompute == profile.recompute) return pass;
    pass.backward_input += recomputed_share(job) * pass.forward;
    return pass;
  };
  costs.optimizer = 0;
  costs.layers.assign(at(job.model.layers), {});
  for (int chunk = 0; chunk < job.chunks; ++chunk) {
    const Stage& stage = pipeline.stages[at(chunk * slots + place.stage)];
    std::string_view last_kind;
    PassSeconds pass;
    double update = 0;
    for (int layer = stage.first_layer; layer < stage.first_layer + stage.layers; ++layer) {
      if (profile.kind_of(layer) != last_kind) {
        last_kind = profile.kind_of(layer);
        update = 0;
        pass = recomputed(measured(job, devices, last_kind, tensor, rows, update));
      }
      costs.layers[at(layer)] = pass;
      costs.optimizer += update;
    }
  }
  if (place.stage == 0 && known(Profile::kEmbedding))
    costs.embedding = measured(job, devices, Profile::kEmbedding, tensor, rows, costs.optimizer);
  if (place.stage + 1 == slots && known(Profile::kHead)) {
    double update = 0;
    costs.head = measured(job, devices, Profile::kHead, tensor, rows, update);
    // The head was measured with a copy of the tied embedding. Where one slot has both, that copy is the
    // first stage's embedding itself.
    if (slots == 1 && job.model.tied_embeddings) {
      const auto norm = static_cast<double>(job.model.norm_parameters());
      update *= norm / (norm + static_cast<double>(job.model.token_embedding_parameters(tensor)));
    }
    costs.optimizer += update;
  }
}

}  // namespace

const PassSeconds& SlotCosts::of_layer(int index) const noexcept {
  return layers.empty() ? layer : layers[at(index)];
}

PassSeconds SlotCosts::stage(const Stage& stage, bool first, bool last) const noexcept {
  PassSeconds sum;
  if (layers.empty()) {
    sum = stage.layers * layer;
  } else {
    for (int i = stage.first_layer; i < stage.first_layer + stage.layers; ++i) add(sum, layers[at(i)]);
  }
  if (first) add(sum, embedding);
  if (last) add(sum, head);
  return sum;
}

const ComputeProfile& kernels_on(const Job& job, const topology::Device& device) {
  static const ComputeProfile kFlopsAlone;
  const ComputeProfile* found =
      job.compute && device.kind == topology::DeviceKind::kGpu ? job.compute->find(device.name) : nullptr;
  return found != nullptr ? *found : kFlopsAlone;
}

namespace {

/// The costs of a slot of the plan, with what `job` says of recomputation in all layers.
SlotCosts costs_of_all_layers(const Plan& plan, const Job& job, const ClusterView& view,
                              const std::vector<int>& ranks) {
  const Model& model = job.model;
  const RankPlacement& first = plan.ranks[at(ranks.front())];
  const Pipeline& pipeline = plan.pipelines[at(first.replica)];
  const int slots = plan.pipeline_size(first.replica);
  const double rows = pipeline.micro_batch;

  std::vector<std::string_view> names;
  std::vector<RankDevice> devices;
  double memory_speed = 0;
  // Peers wait for each other in every layer, so that the slowest of them decides, too.
  const std::vector<std::vector<int>> peers = peers_of(plan, ranks, job.context_parallel),
                                      sharing = peers_of(plan, ranks, job.expert_parts());
  std::vector<int> in_step = ranks;
  for (const auto* some : {&peers, &sharing})
    for (const std::vector<int>& others : *some) in_step.insert(in_step.end(), others.begin(), others.end());
  for (const int rank : in_step) {
    const RankPlacement& place = plan.ranks[at(rank)];
    const int host = view.host_index(place.host);
    const topology::Device& device = view.host(host).devices[at(place.device)];
    if (job.profile) {
      if (std::ranges::find(names, device.name) == names.end()) names.push_back(device.name);
      continue;
    }
    RankDevice one{&device,
                   {view.flops_per_second(host, place.device), view.memory_speed(host, place.device)}};
    if (is_fp8(job.multiplies_in()))
      one.speeds.fp8_flops_per_second = one.speeds.flops_per_second * view.fp8_speedup(host, place.device);
    memory_speed = rank == ranks.front() ? one.speeds.memory_bytes_per_second
                                         : std::min(memory_speed, one.speeds.memory_bytes_per_second);
    if (devices.empty() || !alike(devices.back(), one)) devices.push_back(one);
  }

  SlotCosts costs;
  if (job.profile) {
    apply_profile(costs, plan, job, first, names, static_cast<int>(ranks.size()));
    return costs;
  }
  const bool last = first.stage + 1 == slots;
  const std::vector<SlotMember> members = members_of(plan, view, sharing),
                                dividers = members_of(plan, view, peers);
  PassSeconds mixture;
  for (const RankDevice& one : devices) {
    const ComputeProfile& profile = kernels_on(job, *one.device);
    LayerGroup group{static_cast<int>(ranks.size())};
    if (profile.floor_per_pipelined_rank > 0 && group.tensor > 1)
      group.in_pipeline_over_hosts = pipeline_over_hosts(plan, first);
    ContextRounds rounds = context_rounds(job, view, profile, dividers, rows,
                                          core_seconds(job, profile, one.speeds, group.tensor, rows));
    if (!dividers.empty() && !rounds.crosses())
      group.context = inside_link(view, dividers.front().host, dividers.size(), profile);
    const TensorReduce reduce = tensor_reduce(
        plan, view, ranks, model.boundary_bytes() * rows / job.context_parallel, profile, group);
    SlotExchange exchange = expert_exchange(job, view, profile, members, rows);
    if (!exchange.crosses()) group.expert_exchange = exchange.inside_seconds + exchange.wait_seconds;
    costs.expert_exchange_seconds = std::max(costs.expert_exchange_seconds, group.expert_exchange);
    if (exchange.inside_seconds + exchange.wait_seconds >=
        costs.expert_exchange.inside_seconds + costs.expert_exchange.wait_seconds)
      costs.expert_exchange = std::move(exchange);
    const PassSeconds layer = layer_seconds(job, profile, one.speeds, group, rows, reduce);
    if (layer.both() >= costs.layer.both()) {
      costs.layer = layer;
      if (rounds.crosses()) costs.context = std::move(rounds);
    }
    if (model.experts > 0) {
      const PassSeconds with_experts =
          layer_seconds(job, profile, one.speeds, group, rows, reduce, Mlp::kMixture);
      if (with_experts.both() >= mixture.both()) mixture = with_experts;
    }
    if (last) {
      const PassSeconds head = head_seconds(job, profile, one.speeds, group, rows, reduce);
      if (head.both() >= costs.head.both()) costs.head = head;
    }
    costs.optimizer = std::max(costs.optimizer, profile.step_seconds);
    costs.crowded = std::max(costs.crowded, profile.crowded_seconds);
  }
  if (model.mixed()) {
    costs.layers.assign(at(model.layers), costs.layer);
    for (int layer = 0; layer < model.layers; ++layer)
      if (model.mlp_of(layer) == Mlp::kMixture) costs.layers[at(layer)] = mixture;
  } else if (model.experts > 0) {
    costs.layer = mixture;
  }
  if (memory_speed > 0) {
    // Both frameworks clear the gradients before the step and read them for the norm.
    const double gradient = job.gradient_bytes(), update = update_bytes(job);
    const double experts = static_cast<double>(slot_expert_parameters(plan, first.replica, first.stage));
    const double others = static_cast<double>(slot_parameters(plan, first.replica, first.stage)) - experts;
    const bool sums_share =
        replica_exchange(job.framework, job.sharding, slots).reduction == GradientReduction::kEachMicroBatch;
    const auto seconds = [&](double parameters, double replicas) {
      return parameters *
             (2 * gradient / (sums_share ? replicas : 1) + update / (job.sharded() ? replicas : 1)) /
             memory_speed;
    };
    costs.optimizer += seconds(others, plan.data_size());
    if (experts > 0)
      costs.optimizer += seconds(experts, static_cast<double>(plan.data_size()) / job.expert_parts());
  }
  return costs;
}

}  // namespace

SlotCosts slot_costs(const Plan& plan, const ClusterView& view, const std::vector<int>& ranks) {
  SlotCosts costs = costs_of_all_layers(plan, plan.job, view, ranks);
  if (plan.job.recompute != Recompute::kFull || plan.job.recompute_layers <= 0) return costs;
  // Of each chunk the first layers are computed again, and the others are not.
  Job kept = plan.job;
  kept.recompute = Recompute::kNone;
  kept.recompute_layers = 0;
  const SlotCosts others = costs_of_all_layers(plan, kept, view, ranks);
  if (costs.layers.empty()) costs.layers.assign(at(plan.job.model.layers), costs.layer);
  const RankPlacement& place = plan.ranks[at(ranks.front())];
  const Pipeline& pipeline = plan.pipelines[at(place.replica)];
  const int slots = plan.pipeline_size(place.replica);
  for (int chunk = 0; chunk < plan.job.chunks; ++chunk) {
    const Stage& stage = pipeline.stages[at(chunk * slots + place.stage)];
    const int end = stage.first_layer + stage.layers;
    for (int layer = stage.first_layer + plan.job.layers_again(stage.layers); layer < end; ++layer)
      costs.layers[at(layer)] = others.of_layer(layer);
  }
  return costs;
}

}  // namespace tombolo::planner
