// What replicas send each other beside and during their passes, as the estimate takes it.
#include <algorithm>

#include "planner/cost/engine_reduction.h"
#include "planner/cost/expert_exchange.h"
#include "planner/model/index.h"
#include "planner/search/estimate.h"

namespace tombolo::planner {

ReplicaExchange Estimator::exchange_when(const Shape& shape) const {
  return replica_exchange(job_.framework, shape.saving.sharding,
                          static_cast<int>(shape.kinds.front().slots.size()));
}

const Estimator::Reduction& Estimator::reduction(const std::vector<int>& hosts, int degree) {
  const auto [known, added] = reductions_.try_emplace({degree, hosts});
  if (!added) return known->second;
  Reduction& result = known->second;
  const AllReduce all = all_reduce_among(hosts, result);
  std::map<int, double> loads;
  std::vector<double> out(hosts.size(), 0), in(hosts.size(), 0);
  // A ring crosses between two hosts through the NICs of all members there.
  const auto devices = [&](int host) {
    return degree * (all.ring ? static_cast<int>(std::ranges::count(hosts, host)) : 1);
  };
  for (const Transfer& transfer : all.transfers) {
    const int from = hosts[at(transfer.from)], to = hosts[at(transfer.to)];
    result.possible = result.possible && context_.view.linked(from, to);
    if (!result.possible) return result;
    const Path& path = context_.view.path(from, to);
    result.latency = std::max(result.latency, path.latency_seconds);
    if (path.bytes_per_second <= 0) continue;
    const double seconds =
        transfer.fraction / context_.view.together(from, to, devices(from), devices(to), nics_);
    if (path.inside_host) {
      out[at(transfer.from)] += seconds;
      in[at(transfer.to)] += seconds;
      continue;
    }
    result.slowest = std::max(result.slowest, seconds);
    const auto rails = [&](const std::vector<int>* nics) {
      return nics_ == NicUse::kNearest ? static_cast<double>(nics->size()) : 1.0;
    };
    loads[queue(from, path.from_nic, true)] +=
        transfer.fraction / (context_.view.egress(from, path.from_nic) * rails(path.from_nics));
    loads[queue(to, path.to_nic, false)] +=
        transfer.fraction / (context_.view.ingress(to, path.to_nic) * rails(path.to_nics));
    double rate = 0;
    if (const int shared = shared_queue(path, rate); shared >= 0) loads[shared] += transfer.fraction / rate;
  }
  for (std::size_t i = 0; i < hosts.size(); ++i) result.inside = std::max({result.inside, out[i], in[i]});
  result.latency *= all.rounds;
  result.queues.assign(loads.begin(), loads.end());
  return result;
}

/// Of the engine that of a layer's gradients, whose seconds are in proportion to the bytes then.
AllReduce Estimator::all_reduce_among(const std::vector<int>& hosts, Reduction& result) {
  if (nics_ == NicUse::kFirst && hosts.size() > 1) {
    const EngineModel engine(context_.view, hosts);
    const double bytes = static_cast<double>(job_.layer_parameters(0, 1)) * job_.gradient_bytes();
    const EngineCall call = engine.all_reduce(bytes);
    result.slowest = call.seconds / bytes;
    AllReduce all = engine.traffic(call, traffic_);
    all.rounds = 0;  // the engine's seconds have the latencies in them
    return all;
  }
  std::vector<MemberLocation> members;
  for (const int host : hosts) members.push_back({cluster_of_[at(host)], host});
  return all_reduce_of(members, context_.view.routing());
}

std::vector<int> Estimator::with_same_experts(const std::vector<int>& hosts, int place) const {
  std::vector<int> some;
  for (std::size_t i = at(place); i < hosts.size(); i += at(job_.expert_parallel)) some.push_back(hosts[i]);
  return some;
}

double Estimator::expert_seconds(const Shape& shape, std::size_t slot) {
  std::vector<int> pools;  // by replica
  for (const Shape::Kind& kind : shape.kinds)
    pools.insert(pools.end(), at(kind.count), kind.slots[slot].pool);
  const int degree = shape.kinds.front().slots[slot].degree;
  const auto [known, added] = expert_seconds_.try_emplace(
      {std::move(pools), degree, shape.micro_batch, shape.saving.expert_parallel}, 0.0);
  if (!added) return known->second;
  std::vector<SlotMember> members;
  int replica = 0;
  for (const int number : std::get<0>(known->first)) {
    const Pool& pool = pools_[at(number)];
    members.push_back({replica++, pool.host, degree});
    if (static_cast<int>(members.size()) < shape.saving.expert_parallel) continue;
    const LauncherSlot& launcher_slot = context_.launcher_slots[at(pool.ranks.front())];
    const topology::Device& device = context_.view.host(pool.host).devices[at(launcher_slot.device)];
    for (const SlotMember& other : members)
      if (!context_.view.linked(members.front().host, other.host)) return known->second = Scorer::kNever;
    const SlotExchange exchange =
        expert_exchange(job_, context_.view, kernels_on(job_, device), members, shape.micro_batch);
    known->second = std::max(known->second, seconds_alone(exchange, context_.view, nics_));
    members.clear();
  }
  return known->second;
}

const Estimator::ContextCost& Estimator::context_cost(const Shape& shape, std::size_t slot) {
  std::vector<int> pools;  // by replica
  for (const Shape::Kind& kind : shape.kinds)
    pools.insert(pools.end(), at(kind.count), kind.slots[slot].pool);
  const int degree = shape.kinds.front().slots[slot].degree;
  const auto [known, added] =
      context_costs_.try_emplace({pools, degree, shape.micro_batch, shape.saving.recompute}, ContextCost{});
  ContextCost& cost = known->second;
  if (!added) return cost;
  // Of each group, a plan of this slot alone. What replicas send their experts is expert_seconds().
  Shape alone;
  alone.micro_batch = shape.micro_batch;
  alone.saving = shape.saving;
  alone.saving.expert_parallel = 1;
  Plan plan;
  plan.job = job_;
  plan.job.set(alone.saving);
  plan.job.chunks = 1;
  plan.pipelines.assign(at(job_.context_parallel),
                        {{{0, job_.model.layers, degree}}, shape.micro_batch, shape.micro_batch});
  std::vector<int> first(at(degree));
  for (int rank = 0; rank < degree; ++rank) first[at(rank)] = rank;
  std::map<int, int> taken;  // by pool: devices
  for (std::size_t begin = 0; begin < pools.size(); begin += plan.pipelines.size()) {
    plan.ranks.clear();
    taken.clear();
    for (std::size_t replica = 0; replica < plan.pipelines.size(); ++replica) {
      const Pool& pool = pools_[at(pools[begin + replica])];
      for (int tensor = 0; tensor < degree; ++tensor) {
        const int device = taken[pools[begin + replica]]++ % pool.size();
        const LauncherSlot& launcher_slot = context_.launcher_slots[at(pool.ranks[at(device)])];
        plan.ranks.push_back({context_.view.host(launcher_slot.host).name, launcher_slot.device, 0,
                              static_cast<int>(replica), tensor});
      }
      for (std::size_t other = 0; other < plan.pipelines.size(); ++other)
        cost.possible &= context_.view.linked(pool.host, pools_[at(pools[begin + other])].host);
    }
    if (!cost.possible) return cost;
    const SlotCosts costs = slot_costs(plan, context_.view, first);
    // The group goes at the pace of its slowest device, whose own time is in the estimate already.
    PassSeconds own = costs_.of(pools[begin], degree, alone).layer;
    for (std::size_t other = 1; other < plan.pipelines.size(); ++other) {
      const PassSeconds its = costs_.of(pools[begin + other], degree, alone).layer;
      if (its.both() > own.both()) own = its;
    }
    const PassSeconds all = costs.stage(plan.pipelines.front().stages.front(), false, false);
    const ContextRounds& rounds = costs.context;
    const double once =
        rounds.crosses() ? seconds_alone(rounds.once, context_.view, nics_) - rounds.once.wait_seconds : 0;
    const auto shown = [&](const std::vector<ContextRound>& some) {
      double seconds = 0;
      for (const ContextRound& round : some)
        seconds += std::max(0.0, round.times * once - round.beside) + round.waits * rounds.once.wait_seconds;
      return seconds;
    };
    const double share = 1.0 / job_.model.layers;
    cost.forward = std::max(cost.forward, share * all.forward - own.forward + shown(rounds.forward));
    cost.backward = std::max(cost.backward, share * all.backward() - own.backward() + shown(rounds.backward));
  }
  return cost;
}

Estimator::LayerExchange Estimator::exchange_of(const Shape& shape, std::size_t slot) {
  const ReplicaExchange when = exchange_when(shape);
  if (when.reduction != GradientReduction::kEachMicroBatch || shape.replicas() < 2) return {};
  std::vector<int> hosts;
  int degree = job_.model.heads;
  for (const Shape::Kind& kind : shape.kinds) {
    hosts.insert(hosts.end(), at(kind.count), pools_[at(kind.slots[slot].pool)].host);
    degree = std::min(degree, kind.slots[slot].degree);
  }
  struct Cost {
    double per_byte = 0, latency = 0;
  };
  const auto cost_among = [&](const std::vector<int>& some) {
    const Reduction& all_reduce = reduction(some, degree);
    Cost cost{std::max(all_reduce.slowest, all_reduce.inside / degree), all_reduce.latency};
    for (const auto& [number, seconds] : all_reduce.queues) cost.per_byte = std::max(cost.per_byte, seconds);
    return cost;
  };
  const int layers = job_.model.layers;
  const double experts = static_cast<double>(job_.expert_parameters(0, layers)) / layers;
  const double others = static_cast<double>(job_.layer_parameters(0, layers)) / layers - experts;
  const Cost all = cost_among(hosts), same = experts > 0 ? cost_among(with_same_experts(hosts, 0)) : Cost{};
  const auto half = [&](double value) {
    return 0.5 * (value * (others * all.per_byte + experts * same.per_byte) + all.latency + same.latency);
  };
  const double gather = half(job_.model.bytes_per_value);
  return {when.gather == ParameterGather::kEachStep ? 0 : gather,
          when.gather == ParameterGather::kEachPass ? gather : 0, half(job_.gradient_bytes())};
}

}  // namespace tombolo::planner
