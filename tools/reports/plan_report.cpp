#include "tools/reports/plan_report.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/units.h"
#include "tools/cli/table.h"
#include "topology/files/link_table.h"

namespace tombolo::tools {
namespace {

using planner::Plan;
using planner::Simulation;
using planner::Span;

std::string kind_of_group(const Plan& plan, const char* kind, int rank) {
  for (const auto& group : plan.groups)
    if (group.kind == kind && std::find(group.ranks.begin(), group.ranks.end(), rank) != group.ranks.end())
      return std::string(topology::nic_kind_name(group.nic_kind));
  return "-";
}

/// The number of layers, and which: "9 (0-8)"; with several model chunks, those of each.
std::string layers_text(const Plan& plan, int pipeline_stage, int replica) {
  std::vector<std::string> chunks;
  for (int chunk = 0; chunk < plan.job.chunks; ++chunk) {
    const auto& stage = plan.stage(chunk * plan.pipeline_size(replica) + pipeline_stage, replica);
    chunks.push_back(
        fmt::format("{} ({}-{})", stage.layers, stage.first_layer, stage.first_layer + stage.layers - 1));
  }
  return fmt::format("{}", fmt::join(chunks, " + "));
}

/// A table of the stages. Replicas that are alike share one row per stage; others have rows of their own.
std::string stage_table(const Plan& plan, const topology::ClusterFile& cluster) {
  const bool alike = plan.uniform();
  Table table({alike ? "stage" : "replica.stage", "layers", "cluster", "gradients over", "pipeline over",
               "memory per rank", "ranks"});
  for (int replica = 0; replica < (alike ? 1 : plan.data_size()); ++replica) {
    for (int stage = 0; stage < plan.pipeline_size(replica); ++stage) {
      std::vector<std::string> ranks;
      std::set<std::string> clusters, gradients, pipeline;
      std::uint64_t memory = 0;
      for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
        const auto& place = plan.ranks[rank];
        if (place.stage != stage || (!alike && place.replica != replica)) continue;
        ranks.push_back(fmt::format("{} on {}", rank, place.host));
        if (const auto* host = cluster.find_host(place.host)) clusters.insert(host->cluster);
        gradients.insert(kind_of_group(plan, "data", static_cast<int>(rank)));
        pipeline.insert(kind_of_group(plan, "pipeline", static_cast<int>(rank)));
        if (rank < plan.prediction.memory.size())
          memory = std::max(memory, plan.prediction.memory[rank].total);
      }
      table.add({alike ? std::to_string(stage) : fmt::format("{}.{}", replica, stage),
                 layers_text(plan, stage, replica), fmt::format("{}", fmt::join(clusters, ",")),
                 fmt::format("{}", fmt::join(gradients, ",")), fmt::format("{}", fmt::join(pipeline, ",")),
                 memory > 0 ? format_size(memory) : "-", fmt::format("{}", fmt::join(ranks, ", "))});
    }
  }
  return table.text(terminal_width());
}

/// The micro-batches in words: "micro-batches of 2 rows (4 per replica)"; where replicas differ, those of
/// each.
std::string batches_text(const Plan& plan) {
  const auto& first = plan.pipelines.front();
  if (std::ranges::all_of(plan.pipelines, [&](const auto& one) {
        return one.rows == first.rows && one.micro_batch == first.micro_batch;
      }))
    return fmt::format("micro-batches of {} rows ({} per replica)", first.micro_batch, first.micro_batches());
  std::vector<std::string> shares;
  for (const auto& one : plan.pipelines)
    shares.push_back(fmt::format("{} x {}", one.micro_batches(), one.micro_batch));
  return fmt::format("micro-batches x rows of the replicas {}", fmt::join(shares, ", "));
}

std::string link_table(const topology::ClusterFile& cluster, const Simulation& simulation) {
  if (simulation.links.empty()) return "Nothing is sent between hosts.\n";
  const topology::LinkTable links(cluster);
  Table table({"from", "to", "kind", "bytes per step", "at least"});
  for (const auto& link : simulation.links) {
    std::string kind = "-", least = "-";
    if (const auto* host = cluster.find_host(link.from_host))
      for (const auto& nic : host->nics)
        if (nic.name == link.from_nic) kind = topology::nic_kind_name(nic.kind);
    if (const auto attained = links.find(link.from_host, link.from_nic, link.to_host, link.to_nic))
      least = format_seconds(link.bytes / attained->bytes_per_second);
    table.add({link.from_host + "/" + link.from_nic, link.to_host + "/" + link.to_nic, kind,
               format_size(static_cast<std::uint64_t>(link.bytes)), least});
  }
  std::string text = table.text(terminal_width());
  for (const auto& shared : simulation.shared)
    text += fmt::format("Of these over the shared link {}: {} per step, at least {} at {}.\n", shared.name,
                        format_size(static_cast<std::uint64_t>(shared.bytes)),
                        format_seconds(shared.bytes / shared.bytes_per_second),
                        format_bit_rate(shared.bytes_per_second));
  return text;
}

std::string headline(const Plan& plan, const Simulation& simulation) {
  const auto& job = plan.job;
  const double tokens = static_cast<double>(job.global_batch) * job.model.context / simulation.step_seconds;
  return fmt::format("Predicted: {} per step, {:.0f} tokens/s, bubble {:.1f} %\n",
                     format_seconds(simulation.step_seconds), tokens, 100 * simulation.bubble_fraction);
}

char letter(const Span& span) {
  if (span.name == "forward") return 'F';
  if (span.name == "backward") return 'B';
  if (span.name == "optimizer") return 'O';
  if (span.name == "all-reduce") return 'r';
  return 0;
}

/// "; for device cuda in bf16, recomputing full": what the bundled trainer takes from the plan beside the
/// layout, and what Megatron-LM recomputes; empty where nothing is unusual.
std::string trainer_text(const planner::Job& job) {
  std::string text;
  if (job.on_cuda())
    text = fmt::format("; for device {} in {}", planner::trainer_device_name(job.device),
                       job.model.bytes_per_value == 2 ? "bf16" : "fp32");
  if (job.recompute != planner::Recompute::kNone)
    text +=
        fmt::format("{}recomputing {}", text.empty() ? "; " : ", ", planner::recompute_name(job.recompute));
  return text;
}

}  // namespace

std::string describe_plan(const Plan& plan, const topology::ClusterFile& cluster,
                          const Simulation& simulation) {
  std::string text = fmt::format("Plan: {}, {}, strategy {}, routing {}{}\n", plan.shape(),
                                 batches_text(plan), plan.strategy, plan.routing, trainer_text(plan.job));
  text += headline(plan, simulation);
  text += '\n' + stage_table(plan, cluster) + '\n' + link_table(cluster, simulation);
  if (!plan.notes.empty()) text += "\nWhy:\n";
  for (const std::string& note : plan.notes) text += "  - " + note + '\n';
  return text;
}

std::string describe_simulation(const Plan& plan, const topology::ClusterFile& cluster,
                                const Simulation& simulation) {
  std::string text = headline(plan, simulation) + '\n';
  const std::vector<double> busy = busy_seconds(simulation, plan);
  Table table({"rank", "host", "stage", "replica", "computes", "utilisation"});
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const auto& place = plan.ranks[rank];
    table.add({std::to_string(rank), place.host, std::to_string(place.stage), std::to_string(place.replica),
               format_seconds(busy[rank]),
               fmt::format("{:.1f} %", 100 * busy[rank] / simulation.step_seconds)});
  }
  const std::size_t width = terminal_width() > 0 ? terminal_width() : 100;
  text += table.text(terminal_width()) + '\n' +
          timeline_text(plan, simulation, std::clamp<std::size_t>(width - 12, 20, 160));
  return text + '\n' + link_table(cluster, simulation);
}

std::string timeline_text(const Plan& plan, const Simulation& simulation, std::size_t columns) {
  // Each cell shows the kind of span that fills most of it; a reduction shows only where nothing is computed.
  std::vector<std::map<char, double>> cells(plan.ranks.size() * columns);
  const double cell = simulation.step_seconds / static_cast<double>(columns);
  for (const Span& span : simulation.spans) {
    const char kind = letter(span);
    if (kind == 0 || cell <= 0) continue;
    const auto first = static_cast<std::size_t>(span.begin_seconds / cell);
    for (std::size_t at = first; at < columns && static_cast<double>(at) * cell < span.end_seconds; ++at) {
      const double begin = std::max(span.begin_seconds, static_cast<double>(at) * cell);
      const double end = std::min(span.end_seconds, static_cast<double>(at + 1) * cell);
      cells[static_cast<std::size_t>(span.rank) * columns + at][kind] += end - begin;
    }
  }
  std::string text;
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    text += fmt::format("{:>4} {:<5} ", rank,
                        fmt::format("s{}r{}", plan.ranks[rank].stage, plan.ranks[rank].replica));
    for (std::size_t at = 0; at < columns; ++at) {
      char shown = '.';
      double most = 0, computing = 0;
      const auto& kinds = cells[rank * columns + at];
      for (const auto& [kind, seconds] : kinds) {
        if (kind == 'r') continue;
        computing += seconds;
        if (seconds > most) {
          most = seconds;
          shown = kind;
        }
      }
      if (computing < cell / 2) shown = kinds.contains('r') && kinds.at('r') >= cell / 2 ? 'r' : '.';
      text += shown;
    }
    text += '\n';
  }
  return text +
         "  F forward, B backward, O optimizer, r waiting for gradients, . idle; sN stage, rN replica\n";
}

}  // namespace tombolo::tools
