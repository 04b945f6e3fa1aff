#include "planner/search/estimate.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "planner/cost/border.h"
#include "planner/cost/expert_exchange.h"
#include "planner/cost/memory.h"
#include "planner/model/index.h"

namespace tombolo::planner {

Estimator::Estimator(const SearchContext& context, const Job& job, const std::vector<Pool>& pools)
    : context_(context),
      job_(job),
      pools_(pools),
      nics_(traits(job.framework).nics),
      costs_(context, job, pools) {
  job_.expert_parallel = 1;
  std::map<std::string, int> clusters;
  for (const topology::Host& host : context.view.cluster().hosts)
    cluster_of_.push_back(
        clusters.try_emplace(host.cluster, static_cast<int>(clusters.size())).first->second);
}

namespace {

/// Whether all replicas have equal stages and as many micro-batches.
bool alike(const Shape& shape) {
  const Shape::Kind& first = shape.kinds.front();
  return std::ranges::all_of(shape.kinds, [&](const Shape::Kind& kind) {
    return kind.micro_batches % kind.count == 0 &&
           kind.micro_batches_of_one() == first.micro_batches_of_one() &&
           std::ranges::equal(kind.slots, first.slots, [](const auto& a, const auto& b) {
             return a.layers == b.layers && a.degree == b.degree;
           });
  });
}

}  // namespace

bool Estimator::allowed(const Shape& shape) const {
  const int replicas = shape.replicas();
  if (job_.data > 0 && replicas != job_.data) return false;
  if (job_.micro_batch > 0 && shape.micro_batch != job_.micro_batch) return false;
  const Shape::Kind& first = shape.kinds.front();
  if (replicas % shape.saving.expert_parallel != 0 || (shape.saving.expert_parallel > 1 && !alike(shape)))
    return false;
  if (replicas % job_.context_parallel != 0 || !job_.context_misfit(first.slots.front().degree).empty())
    return false;
  if (shape.saving.sharding > Sharding::kOptimizer && replicas > 1) {
    const FrameworkTraits& can = traits(job_.framework);
    const auto has = first.slots.size() > 1 ? can.staged_shardings : can.shardings;
    if (std::ranges::find(has, shape.saving.sharding) == has.end() || !alike(shape)) return false;
  }
  return std::ranges::all_of(shape.kinds, [&](const Shape::Kind& kind) {
    if (job_.pipeline > 0 && static_cast<int>(kind.slots.size()) != job_.pipeline) return false;
    return context_.options.uneven_replicas ||
           std::ranges::equal(kind.slots, first.slots, [&](const auto& a, const auto& b) {
             return a.layers == b.layers && a.degree == b.degree && a.degree == first.slots[0].degree;
           });
  });
}

double Estimator::seconds(const Shape& shape) {
  if (!allowed(shape)) return Scorer::kNever;
  job_.expert_parallel = shape.saving.expert_parallel;
  for (const Shape::Kind& kind : shape.kinds)
    for (std::size_t i = 0; i < kind.slots.size(); ++i)
      if (!costs_.of(kind.slots[i].pool, kind.slots[i].degree, shape).possible ||
          kind.slots[i].layers > costs_.room(kind, static_cast<int>(i), shape))
        return Scorer::kNever;
  return estimate(shape);
}

double Estimator::estimate(const Shape& shape) {
  for (Queue& one : queues_) one = {};
  double usual = 0;
  std::vector<std::vector<Border>> borders;
  for (const Shape::Kind& kind : shape.kinds) {
    borders.push_back(borders_of(kind, shape));
    usual = std::max(usual, (kind.micro_batches_of_one() + static_cast<double>(kind.slots.size()) - 1) *
                                costs_.tick(kind, shape));
    for (const Border& one : borders.back()) {
      if (!one.possible) return Scorer::kNever;
      const auto use = [&](int queue, double seconds) {
        if (queue < 0) return;
        queues_[at(queue)].load += kind.micro_batches * seconds;
        queues_[at(queue)].pipelines += kind.count;
      };
      for (int i = 0; i < 4; ++i) use(one.queues[i], i < 2 ? one.activation : one.gradient);
      for (int i = 0; i < 2; ++i) use(one.shared[i], one.on_shared[i]);
    }
  }
  double end = 0;
  layers_again_ = costs_.layers_again(shape);
  std::vector<std::vector<double>> ends(shape.kinds.size());
  for (std::size_t k = 0; k < shape.kinds.size(); ++k) {
    for (Border& one : borders[k]) {
      if (one.queues[0] >= 0) {
        one.activation /= std::min(share_of(one.queues[0], usual), share_of(one.queues[1], usual));
        one.gradient /= std::min(share_of(one.queues[2], usual), share_of(one.queues[3], usual));
      }
      if (one.shared[0] >= 0)
        one.activation = std::max(one.activation, one.on_shared[0] / share_of(one.shared[0], usual));
      if (one.shared[1] >= 0)
        one.gradient = std::max(one.gradient, one.on_shared[1] / share_of(one.shared[1], usual));
    }
    end = std::max(end, pipeline_seconds(shape.kinds[k], borders[k], shape, ends[k]));
  }
  for (const Queue& one : queues_) end = std::max(end, one.load);
  if (context_.view.cluster().shared_processor) {
    double work = 0;
    for (const Shape::Kind& kind : shape.kinds)
      for (const Shape::PipelineSlot& slot : kind.slots)
        if (context_.view.shares_processor(pools_[at(slot.pool)].host))
          work += slot.degree * slot.layers * kind.micro_batches *
                  costs_.layer_seconds(slot.pool, slot.degree, shape);
    end = std::max(end, work / context_.view.cluster().shared_processor->cores);
  }
  return shape.replicas() > 1 ? gradients_end(shape, ends, end) : end;
}

double Estimator::share_of(int queue, double step) const {
  const Queue& used = queues_[at(queue)];
  return 1 / (1 + (used.pipelines - 1) * std::min(1.0, used.load / step));
}

/// Whether no two slots of that many devices share one of the host's NICs.
bool Estimator::own_nics(int host, int degree, const std::vector<int>* nics) const {
  return nics_ == NicUse::kNearest && nics->size() * at(degree) >= context_.view.host(host).devices.size();
}

int Estimator::queue(int host, int nic, bool out) {
  const auto [known, added] = queue_numbers_.try_emplace({host, nic, out}, static_cast<int>(queues_.size()));
  if (added) queues_.emplace_back();
  return known->second;
}

/// The queue of the slowest shared link that a path crosses, and its rate; -1 where there is none.
int Estimator::shared_queue(const Path& path, double& bytes_per_second) {
  int slowest = -1;
  for (const int link : path.shared) {
    const double rate = context_.view.cluster().shared_links[at(link)].bytes_per_second;
    if (slowest >= 0 && rate >= bytes_per_second) continue;
    slowest = link;
    bytes_per_second = rate;
  }
  return slowest < 0 ? -1 : queue(-1, slowest, true);
}

Estimator::Border Estimator::border(const Shape::PipelineSlot& from, const Shape::PipelineSlot& to,
                                    const Shape& shape) {
  const int here = pools_[at(from.pool)].host, there = pools_[at(to.pool)].host;
  const double bytes = border_bytes(
      job_, job_.model.boundary_bytes() * shape.micro_batch / job_.context_parallel, from.degree, to.degree);
  Border border;
  border.possible = context_.view.linked(here, there) && context_.view.linked(there, here);
  if (!border.possible) return border;
  const Path &forward = context_.view.path(here, there), &back = context_.view.path(there, here);
  const auto gather = [&](int host, int degree) {
    return border_gather_seconds(job_, bytes, degree, context_.view.path(host, host).bytes_per_second);
  };
  border.activation_latency = forward.latency_seconds + gather(there, to.degree);
  border.gradient_latency = back.latency_seconds + gather(here, from.degree);
  if (forward.inside_host) {
    const double rate = forward.bytes_per_second * std::min(from.degree, to.degree);
    if (rate > 0) border.activation = border.gradient = bytes / rate;
    return border;
  }
  border.activation = bytes / context_.view.together(here, there, from.degree, to.degree, nics_);
  border.gradient = bytes / context_.view.together(there, here, to.degree, from.degree, nics_);
  double rate = 0;
  for (const auto& [i, path] : {std::pair(0, &forward), std::pair(1, &back)}) {
    border.shared[i] = shared_queue(*path, rate);
    if (border.shared[i] >= 0) border.on_shared[i] = bytes / rate;
  }
  // Slots with NICs of their own do not wait for each other's transfers.
  if (own_nics(here, from.degree, forward.from_nics) && own_nics(there, to.degree, forward.to_nics))
    return border;
  border.queues[0] = queue(here, forward.from_nic, true);
  border.queues[1] = queue(there, forward.to_nic, false);
  border.queues[2] = queue(there, back.from_nic, true);
  border.queues[3] = queue(here, back.to_nic, false);
  return border;
}

std::vector<Estimator::Border> Estimator::borders_of(const Shape::Kind& kind, const Shape& shape) {
  std::vector<Border> borders;
  for (std::size_t i = 0; i + 1 < kind.slots.size(); ++i)
    borders.push_back(border(kind.slots[i], kind.slots[i + 1], shape));
  return borders;
}

double Estimator::pipeline_seconds(const Shape::Kind& kind, const std::vector<Border>& borders,
                                   const Shape& shape, std::vector<double>& ends) {
  struct Turn {
    double forward = 0, backward = 0, free = 0;
    double activations_sent = 0, gradients_sent = 0;  // when its path to the next slot, and back, is free
    int warm_up = 0, forwards = 0, backwards = 0, activations = 0, gradients = 0;
  };
  const int slots = static_cast<int>(kind.slots.size()), count = kind.micro_batches_of_one();
  std::vector<Turn> stages(at(slots));
  // Of a slot's layers that are computed again where memory needs it, the others take less.
  const int again = layers_again_;
  Saving kept = shape.saving;
  kept.recompute = Recompute::kNone;
  for (int i = 0; i < slots; ++i) {
    const Shape::PipelineSlot& slot = kind.slots[at(i)];
    const ShapeCosts::Cost& cost = costs_.of(slot.pool, slot.degree, shape);
    Turn& stage = stages[at(i)];
    stage.forward = slot.layers * cost.layer.forward;
    stage.backward = slot.layers * cost.layer.backward();
    if (again < slot.layers)
      stage.backward -= (slot.layers - again) *
                        (cost.layer.backward() -
                         costs_.of(slot.pool, slot.degree, shape.micro_batch, kept).layer.backward());
    if (i + 1 == slots) {
      stage.forward += cost.head.forward;
      stage.backward += cost.head.backward();
    }
    if (job_.expert_parallel > 1) {
      const double exchange = expert_seconds(shape, at(i)) * slot.layers *
                              job_.model.mixtures(0, job_.model.layers) / job_.model.layers;
      stage.forward += expert_exchanges(shape.saving.recompute, true) * exchange;
      stage.backward += expert_exchanges(shape.saving.recompute, false) * exchange;
    }
    if (job_.context_parallel > 1) {
      const ContextCost& context = context_cost(shape, at(i));
      if (!context.possible) return Scorer::kNever;
      stage.forward += slot.layers * context.forward;
      stage.backward += slot.layers * context.backward;
    }
    const LayerExchange exchange = exchange_of(shape, at(i));
    stage.forward = std::max(stage.forward, slot.layers * exchange.gather_forward);
    stage.backward = std::max(stage.backward, slot.layers * (exchange.gather_backward + exchange.scatter));
    stage.warm_up = std::min(slots - 1 - i, count);
    if (i == 0) stage.activations = count;
  }
  operations_ += std::int64_t{2} * slots * count;
  forward_ready_.assign(at(slots) * at(count), 0);
  gradient_ready_.assign(at(slots) * at(count), 0);
  const auto advance = [&](int i) {
    Turn& stage = stages[at(i)];
    double* const activations = &forward_ready_[at(i) * at(count)];
    double* const gradients = &gradient_ready_[at(i) * at(count)];
    int done = 0;
    while (stage.backwards < count) {
      if (stage.forwards < count && stage.forwards - stage.backwards <= stage.warm_up) {
        if (stage.forwards == stage.activations) break;
        const int n = stage.forwards++;
        stage.free = std::max(stage.free, activations[n]) + stage.forward;
        if (i + 1 < slots) {
          stage.activations_sent = std::max(stage.activations_sent, stage.free) + borders[at(i)].activation;
          activations[at(count) + at(n)] = stage.activations_sent + borders[at(i)].activation_latency;
          ++stages[at(i) + 1].activations;
        } else {
          ++stage.gradients;  // the gradient of its own loss
        }
      } else {
        if (stage.backwards == stage.gradients) break;
        const int n = stage.backwards++;
        stage.free = std::max(stage.free, gradients[n]) + stage.backward;
        if (i > 0) {
          Turn& before = stages[at(i) - 1];
          stage.gradients_sent = std::max(stage.gradients_sent, stage.free) + borders[at(i) - 1].gradient;
          gradient_ready_[at(i - 1) * at(count) + at(n)] =
              stage.gradients_sent + borders[at(i) - 1].gradient_latency;
          ++before.gradients;
        }
      }
      ++done;
    }
    return done;
  };
  for (int left = 2 * slots * count; left > 0;) {
    for (int i = 0; i < slots; ++i) left -= advance(i);
    for (int i = slots - 1; i >= 0; --i) left -= advance(i);
  }
  double end = 0;
  ends.clear();
  for (const Turn& stage : stages) {
    ends.push_back(stage.free);
    end = std::max(end, stage.free);
  }
  return end;
}

/// Reduces ranges of layers with the same owners, the last range first. Each begins when the last replica has
/// its gradients and the NICs have finished the ranges before.
double Estimator::gradients_end(const Shape& shape, const std::vector<std::vector<double>>& ends,
                                double computed) {
  const ReplicaExchange when = exchange_when(shape);
  // What is left for the end of a step, in all-reduces of the gradients: these or their half, and the gather
  // of the parameters.
  double part = when.gather == ParameterGather::kEachStep
                    ? 0.5 * static_cast<double>(job_.model.bytes_per_value) / job_.gradient_bytes()
                    : 0;
  if (when.reduction == GradientReduction::kEachStep)
    part += shape.saving.sharding == Sharding::kNone ? 1 : 0.5;
  std::vector<std::size_t> slot;  // by kind: the slot that holds `last`
  std::vector<int> below;         // and the first of its layers
  for (const Shape::Kind& kind : shape.kinds) {
    slot.push_back(kind.slots.size() - 1);
    below.push_back(job_.model.layers - kind.slots.back().layers);
  }
  double end = computed;
  std::vector<int> hosts;
  for (int last = job_.model.layers; last > 0;) {
    const int first = *std::ranges::max_element(below);
    double ready = job_.overlap_gradients ? 0 : computed;
    int degree = job_.model.heads;
    hosts.clear();
    for (std::size_t k = 0; k < shape.kinds.size(); ++k) {
      const Shape::PipelineSlot& owner = shape.kinds[k].slots[slot[k]];
      hosts.insert(hosts.end(), at(shape.kinds[k].count), pools_[at(owner.pool)].host);
      degree = std::min(degree, owner.degree);
      ready = std::max(ready, ends[k][slot[k]]);
    }
    const auto reduce = [&](const std::vector<int>& among, double parameters) {
      const Reduction& all_reduce = reduction(among, degree);
      if (!all_reduce.possible) return false;
      const double bytes = parameters * part * job_.gradient_bytes();
      double begin = ready;
      for (const auto& [number, seconds] : all_reduce.queues)
        begin = std::max(begin, queues_[at(number)].free);
      double longest = bytes * std::max(all_reduce.slowest, all_reduce.inside / degree);
      for (const auto& [number, seconds] : all_reduce.queues) {
        queues_[at(number)].free = begin + bytes * seconds;
        longest = std::max(longest, bytes * seconds);
      }
      end = std::max(end, begin + longest + (last - first) * all_reduce.latency);
      return true;
    };
    const double experts = static_cast<double>(job_.expert_parameters(first, last - first));
    double others = static_cast<double>(job_.layer_parameters(first, last - first)) - experts;
    if (first == 0) others += static_cast<double>(job_.embedding_parameters());
    if (last == job_.model.layers) others += static_cast<double>(job_.model.token_embedding_parameters());
    if (!reduce(hosts, others)) return Scorer::kNever;
    for (int place = 0; experts > 0 && place < job_.expert_parallel; ++place)
      if (!reduce(with_same_experts(hosts, place), experts)) return Scorer::kNever;
    last = first;
    for (std::size_t k = 0; k < shape.kinds.size(); ++k)
      if (below[k] >= last && last > 0) below[k] -= shape.kinds[k].slots[--slot[k]].layers;
  }
  return end;
}

}  // namespace tombolo::planner
