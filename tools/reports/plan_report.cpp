#include "tools/reports/plan_report.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/units.h"
#include "planner/explain/utilisation.h"
#include "tools/cli/table.h"
#include "tools/reports/plan_groups.h"
#include "topology/files/link_table.h"

namespace tombolo::tools {
namespace {

using planner::Plan;
using planner::Simulation;
using planner::Span;

/// A table of the stages.
std::string stage_table(const Plan& plan, const topology::ClusterFile& cluster) {
  const std::vector<ReplicaGroup> groups = replica_groups(plan, cluster);
  const bool alike = groups.size() == 1;
  std::vector<std::string> header{"stage",         "layers",          "cluster", "gradients over",
                                  "pipeline over", "memory per rank", "ranks"};
  if (!alike) header.insert(header.begin(), "replicas");
  Table table(header);
  for (const StageRow& row : stage_rows(plan, cluster, groups)) {
    std::vector<std::string> cells{row.stages(),
                                   row.layers,
                                   fmt::format("{}", fmt::join(row.clusters, ",")),
                                   fmt::format("{}", fmt::join(row.gradients, ",")),
                                   fmt::format("{}", fmt::join(row.pipeline, ",")),
                                   row.memory > 0 ? format_size(row.memory) : "-",
                                   ranks_text(plan, row.ranks)};
    if (!alike) cells.insert(cells.begin(), groups[row.group].name());
    table.add(cells);
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
    return fmt::format("micro-batches of {} ({} per replica)", counted(first.micro_batch, "row"),
                       first.micro_batches());
  std::vector<std::string> shares;
  for (const auto& one : plan.pipelines)
    shares.push_back(fmt::format("{} x {}", one.micro_batches(), one.micro_batch));
  return fmt::format("micro-batches x rows of the replicas {}", fmt::join(shares, ", "));
}

std::string shared_links(const Simulation& simulation) {
  std::string text;
  for (const auto& shared : simulation.shared)
    text += fmt::format("Of these over the shared link {}: {} per step, at least {} at {}.\n", shared.name,
                        format_size(static_cast<std::uint64_t>(shared.bytes)),
                        format_seconds(shared.bytes / shared.bytes_per_second),
                        format_bit_rate(shared.bytes_per_second));
  return text;
}

/// Each link, with the time that its bytes take at least.
std::string each_link(const topology::ClusterFile& cluster, const Simulation& simulation) {
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
  return table.text(terminal_width());
}

/// The links summed by cluster and kind.
std::string links_by_cluster(const topology::ClusterFile& cluster, const Simulation& simulation) {
  Table table({"from", "to", "kind", "links", "bytes per step", "over the fullest", "at least"});
  for (const LinkGroup& group : link_groups(cluster, simulation))
    table.add({group.from, group.to, std::string(topology::nic_kind_name(group.kind)),
               std::to_string(group.links), format_size(static_cast<std::uint64_t>(group.bytes)),
               format_size(static_cast<std::uint64_t>(group.most_bytes)),
               group.least_seconds > 0 ? format_seconds(group.least_seconds) : "-"});
  return table.text(terminal_width());
}

std::string link_table(const topology::ClusterFile& cluster, const Simulation& simulation) {
  constexpr std::size_t kMostLinks = 12;
  if (simulation.links.empty()) return "Nothing is sent between hosts.\n";
  return (simulation.links.size() <= kMostLinks ? each_link(cluster, simulation)
                                                : links_by_cluster(cluster, simulation)) +
         shared_links(simulation);
}

/// "; 412 TFLOP/s per GPU, MFU 41.6 %"; empty for processors, whose peaks nobody states.
std::string utilisation_text(const Plan& plan, const topology::ClusterFile& cluster, double step_seconds) {
  const planner::Utilisation seen = planner::utilisation_of(plan, cluster, step_seconds);
  if (seen.of_peak <= 0) return {};
  return fmt::format(", {:.3g} TFLOP/s per GPU, MFU {:.1f} %", seen.flops_per_second / 1e12,
                     100 * seen.of_peak);
}

std::string headline(const Plan& plan, const topology::ClusterFile& cluster, const Simulation& simulation) {
  const auto& job = plan.job;
  const double tokens = static_cast<double>(job.global_batch) * job.model.context / simulation.step_seconds;
  return fmt::format("Predicted: {} per step, {:.0f} tokens/s, bubble {:.1f} %{}\n",
                     format_seconds(simulation.step_seconds), tokens, 100 * simulation.bubble_fraction,
                     utilisation_text(plan, cluster, simulation.step_seconds));
}

char letter(const Span& span) {
  if (span.name == "forward") return 'F';
  if (span.name == "backward") return 'B';
  if (span.name == "optimizer") return 'O';
  if (span.name == "all-reduce") return 'r';
  if (span.name == "all-to-all" || span.name == "ring") return 'x';
  return 0;
}

/// What a rank's layers are divided by, and how the step runs, beside the shape: ", 8 tensor ranks, schedule
/// interleaved of 2 chunks, sharded optimizer, recomputing full"; and the device and type that the bundled
/// trainer takes from the plan.
std::string choices_text(const Plan& plan) {
  const planner::Job& job = plan.job;
  int least = job.tensor, most = job.tensor;
  for (const auto& pipeline : plan.pipelines)
    for (const auto& stage : pipeline.stages) {
      least = std::min(least, stage.tensor);
      most = std::max(most, stage.tensor);
    }
  std::string text;
  if (most > 1)
    text += fmt::format(", {} tensor ranks{}",
                        least == most ? std::to_string(most) : fmt::format("{} to {}", least, most),
                        job.sequence_parallel ? " with sequence parallelism" : "");
  if (most > 1 && job.overlap_tensor) text += ", which exchange beside products";
  if (job.schedule != planner::Schedule::kOneForwardOneBackward)
    text += fmt::format(", schedule {}", planner::schedule_name(job.schedule));
  if (job.chunks > 1) text += fmt::format(" of {} chunks", job.chunks);
  if (job.context_parallel > 1)
    text += fmt::format(", {} replicas divide each row ({})", job.context_parallel,
                        planner::context_exchange_name(job.context_exchange));
  if (job.expert_parallel > 1)
    text += fmt::format(", {} replicas divide each layer's experts", job.expert_parallel);
  if (job.sharded()) text += fmt::format(", sharded {}", planner::sharding_name(job.sharding));
  if (planner::is_fp8(job.multiplies_in()))
    text += fmt::format(", products in {}", planner::precision_name(job.multiplies_in()));
  if (job.recompute != planner::Recompute::kNone)
    text += job.recompute_layers > 0
                ? fmt::format(", recomputing {} of each {}", counted(job.recompute_layers, "layer"),
                              job.chunks > 1 ? "chunk" : "stage")
                : fmt::format(", recomputing {}", planner::recompute_name(job.recompute));
  if (job.on_cuda())
    text += fmt::format("; for device {} in {}", planner::trainer_device_name(job.device),
                        job.model.bytes_per_value == 2 ? "bf16" : "fp32");
  return text;
}

}  // namespace

std::string describe_plan(const Plan& plan, const topology::ClusterFile& cluster,
                          const Simulation& simulation) {
  std::string text = fmt::format("Plan: {}, {}, strategy {}, routing {}{}\n", plan.shape(),
                                 batches_text(plan), plan.strategy, plan.routing, choices_text(plan));
  // Who trains is said at the top where nobody named it, and what of the model it cannot be told.
  const std::string_view title = planner::traits(plan.job.framework).title;
  const auto is_guess = [&](const std::string& note) {
    return note.starts_with(fmt::format("for {}, ", title));
  };
  const auto is_above = [&](const std::string& note) {
    return is_guess(note) || note.starts_with(fmt::format("{} has no argument for ", title));
  };
  for (const std::string& note : plan.notes)
    if (is_above(note)) text += fmt::format("{}{}\n", is_guess(note) ? 'F' : note.front(), note.substr(1));
  text += headline(plan, cluster, simulation);
  text += '\n' + stage_table(plan, cluster) + '\n' + link_table(cluster, simulation);
  if (!std::ranges::all_of(plan.notes, is_above)) text += "\nWhy:\n";
  for (const std::string& note : plan.notes)
    if (!is_above(note)) text += "  - " + note + '\n';
  return text;
}

std::string describe_simulation(const Plan& plan, const topology::ClusterFile& cluster,
                                const Simulation& simulation) {
  std::string text = headline(plan, cluster, simulation) + '\n';
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
         "  F forward, B backward, O optimizer, x tokens to experts and back, r waiting for gradients, . "
         "idle; sN stage, rN replica\n";
}

}  // namespace tombolo::tools
