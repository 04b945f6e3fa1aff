#include "planner/costs.h"

#include <algorithm>

#include "planner/index.h"
#include "planner/memory.h"

namespace tombolo::planner {

namespace {

/// An all-reduce of `bytes` among the ranks of a place: 2 (t-1) / t of it over each edge of a ring.
double tensor_all_reduce(const Plan& plan, const ClusterView& view, const std::vector<int>& ranks,
                         double bytes) {
  const double count = static_cast<double>(ranks.size());
  if (ranks.size() < 2) return 0;
  double seconds_per_byte = 0, latency = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const int from = view.host_index(plan.ranks[at(ranks[i])].host);
    const int to = view.host_index(plan.ranks[at(ranks[(i + 1) % ranks.size()])].host);
    const Path& path = view.path(from, to);
    if (path.bytes_per_second > 0) seconds_per_byte = std::max(seconds_per_byte, 1 / path.bytes_per_second);
    latency = std::max(latency, path.latency_seconds);
  }
  return 2 * (count - 1) * (bytes / count * seconds_per_byte + latency);
}

PassSeconds operator*(double factor, const PassSeconds& pass) {
  return {factor * pass.forward, factor * pass.backward_input, factor * pass.backward_weights};
}

}  // namespace

PassSeconds PlaceCosts::stage(int layers, bool last) const noexcept {
  PassSeconds sum = layers * layer;
  if (!last) return sum;
  sum.forward += head.forward;
  sum.backward_input += head.backward_input;
  sum.backward_weights += head.backward_weights;
  return sum;
}

PlaceCosts place_costs(const Plan& plan, const ClusterView& view, const std::vector<int>& ranks) {
  const Job& job = plan.job;
  const Model& model = job.model;
  const RankPlace& first = plan.ranks[at(ranks.front())];
  const Pipeline& pipeline = plan.pipelines[at(first.replica)];
  const int places = plan.pipeline_size(first.replica);
  const double rows = pipeline.micro_batch, tensor = static_cast<double>(ranks.size());

  double speed = 0, memory_speed = 0;
  for (const int rank : ranks) {
    const RankPlace& place = plan.ranks[at(rank)];
    const int host = view.host_index(place.host);
    const double flops = view.flops_per_second(host, place.device),
                 memory = view.memory_speed(host, place.device);
    speed = rank == ranks.front() ? flops : std::min(speed, flops);
    memory_speed = rank == ranks.front() ? memory : std::min(memory_speed, memory);
  }

  PlaceCosts costs;
  const double all = model.layer_forward_flops() * rows / tensor / speed;
  const double core = model.attention_core_flops() * rows / tensor / speed, products = all - core;
  const double reduce = tensor_all_reduce(plan, view, ranks, model.boundary_bytes() * rows);
  costs.layer = {all + 2 * reduce, products + 2 * core + 2 * reduce, products};
  if (job.recompute == Recompute::kFull) costs.layer.backward_input += all + 2 * reduce;
  if (job.recompute == Recompute::kSelective) costs.layer.backward_input += core;
  const double head = model.head_forward_flops() * rows / tensor / speed;
  const bool last = first.stage + 1 == places;
  if (last) costs.head = {head, head + reduce, head};

  if (memory_speed > 0) {
    // Both clear gradients before the step and read them for the norm. Adam reads a parameter, its gradient
    // and both moments and writes all but the gradient; with a master copy it reads and writes that too.
    const double value = model.bytes_per_value, gradient = job.gradient_bytes();
    const double master = value < 4 ? 8 : 0;
    const double update = 2 * value + gradient + 16 + master;
    const double parameters = static_cast<double>(place_parameters(plan, first.replica, first.stage));
    const double share = job.shard_optimizer ? plan.data_size() : 1;
    costs.optimizer = parameters * (2 * gradient + update / share) / memory_speed;
  }
  return costs;
}

}  // namespace tombolo::planner
