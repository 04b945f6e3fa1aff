#include "planner/explain/replan.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "planner/plan/cluster_view.h"

namespace tombolo::planner {
namespace {

/// A piece of the model that one rank holds. `layer` is a layer, -1 for the embedding, or the number of
/// layers for what follows the last layer; `tensor` and `degree` say which share of how many, `experts` and
/// `expert_parts` which of its experts.
struct Piece {
  int layer = 0, tensor = 0, degree = 1, experts = 0, expert_parts = 1;
  auto operator<=>(const Piece&) const = default;
};

std::vector<Piece> pieces_of(const Plan& plan, const RankPlacement& place) {
  std::vector<Piece> pieces;
  const int layers = plan.job.model.layers;
  for (int chunk = 0; chunk < plan.job.chunks; ++chunk) {
    const Stage& stage = plan.stage(chunk * plan.pipeline_size(place.replica) + place.stage, place.replica);
    if (stage.first_layer == 0) pieces.push_back({-1, place.tensor, stage.tensor});
    for (int i = 0; i < stage.layers; ++i) {
      Piece piece{stage.first_layer + i, place.tensor, stage.tensor};
      if (plan.job.model.mlp_of(piece.layer) == Mlp::kMixture) {
        piece.expert_parts = plan.job.expert_parts();
        piece.experts = place.replica % piece.expert_parts;
      }
      pieces.push_back(piece);
    }
    if (stage.first_layer + stage.layers == layers) pieces.push_back({layers, place.tensor, stage.tensor});
  }
  return pieces;
}

double bytes_of(const Plan& plan, const Piece& piece) {
  const Job& job = plan.job;
  const Model& model = job.model;
  std::uint64_t parameters = 0, experts = 0;
  if (piece.layer < 0) {
    parameters = model.embedding_parameters(piece.degree);
  } else if (piece.layer < model.layers) {
    experts = job.expert_parameters(piece.layer, 1, piece.degree);
    parameters = model.layers_parameters(piece.layer, 1, piece.degree, piece.expert_parts) - experts;
  } else {
    // Where the output projection is tied to the embedding and one stage holds both, it has no parameters of
    // its own.
    const bool again = !model.tied_embeddings || plan.pipeline_size() > 1;
    parameters = model.norm_parameters() + (again ? model.token_embedding_parameters(piece.degree) : 0);
  }
  const auto bytes = [&](std::uint64_t count, double replicas) {
    double optimizer = job.optimizer_bytes(), value = model.bytes_per_value;
    if (job.sharded()) optimizer /= replicas;
    if (job.sharding == Sharding::kParameters) value /= replicas;
    return static_cast<double>(count) * (value + optimizer);
  };
  return bytes(parameters, plan.data_size()) +
         bytes(experts, static_cast<double>(plan.data_size()) / job.expert_parts());
}

/// The hosts that hold each layer, whatever their share of it.
std::map<int, std::set<std::string>> holders(const Plan& plan, const topology::ClusterFile& cluster) {
  std::map<int, std::set<std::string>> hosts;
  for (const RankPlacement& place : plan.ranks) {
    if (cluster.find_host(place.host) == nullptr) continue;
    for (const Piece& piece : pieces_of(plan, place)) hosts[piece.layer].insert(place.host);
  }
  return hosts;
}

/// The host with the fastest path to `to`; empty where none reaches it.
std::string nearest(const std::set<std::string>& hosts, const std::string& to, const ClusterView& view) {
  if (hosts.contains(to)) return to;
  std::string best;
  double speed = -1;
  for (const std::string& host : hosts) {
    const int from = view.host_index(host), target = view.host_index(to);
    if (!view.nics_between(from, target)) continue;
    const double here = view.path(from, target).bytes_per_second;
    if (here > speed) {
      speed = here;
      best = host;
    }
  }
  return best;
}

int devices_of(const ClusterView& view, int host) {
  return static_cast<int>(view.host(host).devices.size());
}

}  // namespace

Moving moving_between(const Plan& from, const Plan& to, const topology::ClusterFile& cluster) {
  std::map<std::pair<std::string, int>, std::set<Piece>> held;
  for (const RankPlacement& place : from.ranks)
    for (const Piece& piece : pieces_of(from, place)) held[{place.host, place.device}].insert(piece);
  const auto sources = holders(from, cluster);
  const ClusterView view(cluster, "per-peer", {});
  const NicUse nics = traits(to.job.framework).nics;
  std::map<std::pair<std::string, std::string>, double> between;
  for (const RankPlacement& place : to.ranks) {
    const auto known = held.find({place.host, place.device});
    for (const Piece& piece : pieces_of(to, place)) {
      if (known != held.end() && known->second.contains(piece)) continue;
      const auto source = sources.find(piece.layer);
      const std::string host =
          source == sources.end() ? std::string() : nearest(source->second, place.host, view);
      between[{host, place.host}] += bytes_of(to, piece);
    }
  }
  Moving moving;
  std::map<std::string, double> sending, receiving;
  for (const auto& [hosts, bytes] : between) {
    Moving::Transfer transfer{hosts.first, hosts.second, static_cast<std::uint64_t>(bytes), 0};
    if (transfer.from.empty()) {
      moving.checkpoint_bytes += transfer.bytes;
    } else if (transfer.from != transfer.to) {
      const int source = view.host_index(transfer.from), target = view.host_index(transfer.to);
      const double rate =
          view.together(source, target, devices_of(view, source), devices_of(view, target), nics);
      transfer.seconds = view.path(source, target).latency_seconds + bytes / rate;
      moving.seconds = std::max({moving.seconds, sending[transfer.from] += transfer.seconds,
                                 receiving[transfer.to] += transfer.seconds});
    }
    moving.bytes += transfer.bytes;
    moving.transfers.push_back(std::move(transfer));
  }
  return moving;
}

bool pays_to_move(double running_step, double fresh_step, double moving_seconds, double steps) {
  // The search adds up the same seconds in another order than the simulation of a plan that runs, so that the
  // steps of one plan may differ in their last digits.
  constexpr double kRounding = 1e-9;
  const double saved = running_step - fresh_step;
  return saved > kRounding * running_step && saved * steps > moving_seconds;
}

Replan replan(const topology::ClusterFile& cluster, const Plan& running, const Job& job,
              const PlanOptions& options, double steps) {
  Replan result;
  Simulation today;
  try {
    today = simulate(running, cluster, {.spans = false});
    result.running_step = today.step_seconds;
  } catch (const Error& error) {
    result.why_not = error.what();
  }
  Plan fresh = make_plan(cluster, job, options);
  const Moving moving = moving_between(running, fresh, cluster);
  const double saved = result.running_step - fresh.prediction.step_seconds;
  if (result.running_step > 0 &&
      !pays_to_move(result.running_step, fresh.prediction.step_seconds, moving.seconds, steps)) {
    result.plan = running;
    Prediction& prediction = result.plan.prediction;
    prediction.step_seconds = result.running_step;
    prediction.reductions = std::move(today.reductions);
    prediction.tokens_per_second =
        static_cast<double>(job.global_batch) * job.model.context / result.running_step;
    result.keep = true;
    return result;
  }
  if (result.running_step > 0) result.steps_to_pay = moving.seconds / saved;
  result.plan = std::move(fresh);
  result.moving = moving;
  return result;
}

}  // namespace tombolo::planner
