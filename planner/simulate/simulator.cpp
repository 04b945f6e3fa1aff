#include "planner/simulate/simulator.h"

#include <algorithm>
#include <map>

#include "planner/model/index.h"
#include "planner/plan/cluster_view.h"
#include "planner/simulate/step_graph.h"

namespace tombolo::planner {

namespace {

bool is_compute(Bar::Kind kind) {
  return kind == Bar::Kind::kForward || kind == Bar::Kind::kBackward || kind == Bar::Kind::kBackwardWeights ||
         kind == Bar::Kind::kOptimizer;
}

const char* bar_name(Bar::Kind kind) {
  switch (kind) {
    case Bar::Kind::kForward:
      return "forward";
    case Bar::Kind::kBackward:
      return "backward";
    case Bar::Kind::kBackwardWeights:
      return "weight gradients";
    case Bar::Kind::kSend:
      return "send";
    case Bar::Kind::kReduce:
      return "all-reduce";
    case Bar::Kind::kExchange:
      return "all-to-all";
    case Bar::Kind::kRing:
      return "ring";
    case Bar::Kind::kOptimizer:
      return "optimizer";
  }
  return "?";
}

/// Adds a bar; a pass with waits in its layers as what is between them, and these, evenly over the pass.
void add_spans(const Bar& bar, double begin, double end, std::vector<Span>& spans) {
  const double piece = bar.exchanges > 0 ? (end - begin) / bar.exchanges : 0;
  double computed = begin;
  for (int i = 0; i < bar.exchanges && bar.exchanged > 0; ++i) {
    const double waits = begin + piece * (i + 0.5 * (1 - bar.exchanged)),
                 goes_on = waits + piece * bar.exchanged;
    spans.push_back({bar.rank, bar_name(bar.kind), bar.micro_batch, computed, waits});
    spans.push_back({bar.rank, bar_name(Bar::Kind::kExchange), bar.micro_batch, waits, goes_on});
    computed = goes_on;
  }
  spans.push_back({bar.rank, bar_name(bar.kind), bar.micro_batch, computed, end});
}

/// For how many ranks a bar of a rank stands: those that share its layers, itself included, in all replicas
/// that are alike.
int stands_for(const Plan& plan, const StepGraph& graph, int rank) {
  const RankPlacement& place = plan.ranks[at(rank)];
  return plan.stage(place.stage, place.replica).tensor *
         (graph.copies.empty() ? 1 : graph.copies[at(place.replica)]);
}

}  // namespace

std::vector<std::string> hosts_of(const Plan& plan) {
  std::vector<std::string> hosts;
  for (const RankPlacement& place : plan.ranks)
    if (std::find(hosts.begin(), hosts.end(), place.host) == hosts.end()) hosts.push_back(place.host);
  return hosts;
}

Simulation simulate(const Plan& plan, const topology::ClusterFile& cluster,
                    const SimulationOptions& options) {
  const ClusterView view(cluster, plan.routing, hosts_of(plan));
  // A plan may have been made for another cluster file; what searches make needs no look.
  for (const RankPlacement& place : plan.ranks) (void)view.device(view.host_index(place.host), place.device);
  return simulate(plan, view, options);
}

Simulation simulate(const Plan& plan, const ClusterView& view, const SimulationOptions& options) {
  Simulation result;
  // The graph of so many replicas takes long to build, which most plans of a search are not worth.
  constexpr int kManyReplicas = 16;
  if (plan.data_size() >= kManyReplicas && options.limit_seconds < std::numeric_limits<double>::infinity()) {
    result.step_seconds = least_step_seconds(plan, view);
    if (certainly_beyond(result.step_seconds, options.limit_seconds)) return result;
  }
  StepGraph own;
  StepGraph& graph = options.memory ? *options.memory : own;
  graph = build_step(plan, view, options.bucket_bytes, std::move(graph),
                     options.spans || options.links ? AlikeReplicas::kEach : AlikeReplicas::kOnce);
  graph.engine.run(options.limit_seconds);
  result.step_seconds = graph.engine.finish();
  if (result.step_seconds > options.limit_seconds) return result;
  double busy = 0;
  for (const Bar& bar : graph.bars) {
    const double begin = graph.engine.begin(bar.first), end = graph.engine.end(bar.last);
    if (is_compute(bar.kind)) busy += (end - begin) * (1 - bar.exchanged) * stands_for(plan, graph, bar.rank);
    if (options.spans && end > begin) add_spans(bar, begin, end, result.spans);
  }
  std::stable_sort(result.spans.begin(), result.spans.end(), [](const Span& a, const Span& b) {
    return a.rank != b.rank ? a.rank < b.rank : a.begin_seconds < b.begin_seconds;
  });
  if (result.step_seconds > 0)
    result.bubble_fraction =
        std::max(0.0, 1 - busy / (result.step_seconds * static_cast<double>(plan.ranks.size())));
  result.reductions = std::move(graph.reductions);
  std::map<int, double> over_shared;
  for (const Flow& flow : graph.flows) {
    for (const int link : view.path(flow.from_host, flow.to_host).shared) over_shared[link] += flow.bytes;
    const auto &from = view.host(flow.from_host), &to = view.host(flow.to_host);
    result.links.push_back({from.name, from.nics[static_cast<std::size_t>(flow.from_nic)].name, to.name,
                            to.nics[static_cast<std::size_t>(flow.to_nic)].name, flow.bytes});
  }
  for (const auto& [index, bytes] : over_shared) {
    const topology::SharedLink& link = view.cluster().shared_links[at(index)];
    result.shared.push_back({link.name, bytes, link.bytes_per_second});
  }
  return result;
}

std::vector<double> busy_seconds(const Simulation& simulation, const Plan& plan) {
  std::vector<double> busy(plan.ranks.size(), 0.0);
  for (const Span& span : simulation.spans)
    if (span.name != "send" && span.name != "all-reduce" && span.name != "all-to-all" && span.name != "ring")
      busy[at(span.rank)] += span.end_seconds - span.begin_seconds;
  // Tensor-parallel ranks work in step, and only the first has spans.
  for (std::size_t rank = 0; rank < busy.size(); ++rank) {
    const RankPlacement& place = plan.ranks[rank];
    if (place.tensor > 0) busy[rank] = busy[at(plan.rank_at(place.stage, place.replica))];
  }
  return busy;
}

}  // namespace tombolo::planner
