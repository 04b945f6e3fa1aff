#include "tools/reports/plan_page.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/units.h"
#include "planner/explain/utilisation.h"
#include "tools/reports/html.h"
#include "tools/reports/memory_table.h"
#include "tools/reports/plan_groups.h"
#include "tools/reports/svg.h"
#include "tools/reports/timeline.h"
#include "topology/files/link_table.h"

namespace tombolo::tools {
namespace {

using planner::Plan;
using planner::RankMemory;
using planner::Simulation;

constexpr std::size_t kMostRankRows = 64;
constexpr double kMemoryWidth = 900, kMemoryLeft = 190, kMemoryRight = 150, kMemoryTop = 6, kMemoryBar = 15,
                 kMemoryRow = 24;

/// The ranks that the drawings show: one of each stage of each replica, or where these are too many those of
/// the first replica of each group that is alike.
std::vector<std::size_t> shown_ranks(const Plan& plan, const std::vector<ReplicaGroup>& groups) {
  std::vector<std::size_t> ranks = first_ranks(plan);
  if (ranks.size() > kMostRankRows)
    std::erase_if(ranks, [&](std::size_t rank) {
      return std::ranges::none_of(groups, [&](const ReplicaGroup& group) {
        return group.replicas.front() == plan.ranks[rank].replica;
      });
    });
  if (ranks.size() > kMostRankRows) ranks.resize(kMostRankRows);
  std::ranges::stable_sort(ranks, {}, [&](std::size_t rank) {
    return std::pair(plan.ranks[rank].replica, plan.ranks[rank].stage);
  });
  return ranks;
}

std::string draw_memory(const Plan& plan, const topology::ClusterFile& cluster,
                        const std::vector<std::size_t>& ranks) {
  double top = 0;
  for (const std::size_t rank : ranks)
    top = std::max(top, static_cast<double>(plan.prediction.memory[rank].total));
  // Where bars would be too short next to a device's whole memory, its size is only written.
  double limit = 0;
  for (const std::size_t rank : ranks) limit = std::max(limit, memory_of_device(cluster, plan.ranks[rank]));
  const bool limits = limit > 0 && limit < 4 * top;
  const double whole = limits ? std::max(top, limit) : top;
  const double scale = whole > 0 ? (kMemoryWidth - kMemoryLeft - kMemoryRight) / whole : 0;
  Svg svg(kMemoryWidth, kMemoryTop + kMemoryRow * static_cast<double>(ranks.size()) + 6,
          "Memory of each rank");
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const auto& place = plan.ranks[ranks[i]];
    const RankMemory& memory = plan.prediction.memory[ranks[i]];
    const double y = kMemoryTop + kMemoryRow * static_cast<double>(i);
    svg.text(kMemoryLeft - 12, y + 12, group_name(plan, ranks[i]), "name end");
    const std::array<std::pair<const char*, std::uint64_t>, 5> parts{{{"parameters", memory.parameters},
                                                                      {"gradients", memory.gradients},
                                                                      {"optimizer", memory.optimizer},
                                                                      {"activations", memory.activations},
                                                                      {"buffers", memory.buffers}}};
    double x = kMemoryLeft;
    for (const auto& [name, bytes] : parts) {
      const double width = static_cast<double>(bytes) * scale;
      if (width <= 0) continue;
      svg.rectangle(x, y, std::max(width - 0.6, 0.3), kMemoryBar, fmt::format("m-{}", name),
                    fmt::format("{}: {}", name, format_size(bytes)), 1);
      x += width;
    }
    const double device = memory_of_device(cluster, place);
    if (limits && device > 0)
      svg.line(kMemoryLeft + device * scale, y - 3, kMemoryLeft + device * scale, y + kMemoryBar + 3, "axis");
    svg.text(kMemoryLeft + (limits ? whole * scale : x - kMemoryLeft) + 8, y + 12,
             device > 0 ? fmt::format("{} of {}", format_size(memory.total),
                                      format_size(static_cast<std::uint64_t>(device)))
                        : format_size(memory.total),
             "value");
  }
  return svg.finish();
}

std::string kinds_text(const std::set<std::string>& kinds) {
  std::vector<std::string> titles;
  for (const std::string& name : kinds) {
    const auto kind = topology::nic_kind_from_name(name);
    titles.push_back(kind ? kind_title(*kind) : "-");
  }
  return fmt::format("{}", fmt::join(titles, ", "));
}

std::string stages_html(const Plan& plan, const topology::ClusterFile& cluster,
                        const std::vector<ReplicaGroup>& groups) {
  std::vector<std::vector<std::string>> rows;
  for (const StageRow& row : stage_rows(plan, cluster, groups)) {
    const int replica = groups[row.group].replicas.front();
    const auto& pipeline = plan.pipelines[static_cast<std::size_t>(replica)];
    rows.push_back({groups[row.group].name(), row.stages(), fmt::format("{}", fmt::join(row.clusters, ", ")),
                    ranks_text(plan, row.ranks), kinds_text(row.gradients), kinds_text(row.pipeline),
                    row.layers, std::to_string(plan.stage(row.first_stage, replica).tensor),
                    std::to_string(pipeline.rows), std::to_string(pipeline.micro_batch),
                    row.memory > 0 ? format_size(row.memory) : "-"});
  }
  return html_table({"Replicas", "Stages", "Cluster", "Ranks", "Gradients over", "Pipeline over", "Layers",
                     "Tensor ranks", "Rows per step", "Micro-batch", "Memory"},
                    rows, 6);
}

std::string percent_of(double seconds, double step) {
  return seconds > 0 ? fmt::format("{:.0f} %", 100 * seconds / step) : "-";
}

/// The links summed by cluster and kind.
std::string link_groups_html(const topology::ClusterFile& cluster, const Simulation& simulation) {
  std::vector<std::vector<std::string>> rows;
  for (const LinkGroup& group : link_groups(cluster, simulation))
    rows.push_back({group.from, group.to, kind_title(group.kind), std::to_string(group.links),
                    short_bytes(group.bytes), short_bytes(group.most_bytes),
                    percent_of(group.least_seconds, simulation.step_seconds)});
  return html_table({"From", "To", "Kind", "Links", "Bytes per step", "Over the fullest", "Fullest busy"},
                    rows, 3);
}

std::string each_link_html(const topology::ClusterFile& cluster, const Simulation& simulation) {
  constexpr std::size_t kMostLinkRows = 100;
  auto sorted = simulation.links;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  const topology::LinkTable attained_by(cluster);
  std::vector<std::vector<std::string>> rows;
  for (const auto& link : sorted) {
    if (rows.size() == kMostLinkRows) break;
    std::string kind = "-", share = "-";
    if (const auto* host = cluster.find_host(link.from_host))
      for (const auto& nic : host->nics)
        if (nic.name == link.from_nic) kind = kind_title(nic.kind);
    if (const auto attained = attained_by.find(link.from_host, link.from_nic, link.to_host, link.to_nic))
      share = percent_of(link.bytes / attained->bytes_per_second, simulation.step_seconds);
    rows.push_back({link.from_host + "/" + link.from_nic, link.to_host + "/" + link.to_nic, kind,
                    short_bytes(link.bytes), share});
  }
  std::string out = html_table({"From", "To", "Kind", "Bytes per step", "Busy"}, rows, 3);
  if (sorted.size() > kMostLinkRows)
    out += html_note(fmt::format("The {} fullest of {}.", kMostLinkRows, sorted.size()));
  return out;
}

std::string links_html(const topology::ClusterFile& cluster, const Simulation& simulation) {
  constexpr std::size_t kMostListed = 24;
  if (simulation.links.empty()) return html_note("Nothing is sent between hosts.");
  std::string out = simulation.links.size() <= kMostListed
                        ? each_link_html(cluster, simulation)
                        : link_groups_html(cluster, simulation) +
                              html_details("Each link", each_link_html(cluster, simulation));
  if (simulation.shared.empty()) return out;
  std::vector<std::vector<std::string>> rows;
  for (const auto& shared : simulation.shared)
    rows.push_back({shared.name, format_bit_rate(shared.bytes_per_second), short_bytes(shared.bytes),
                    percent_of(shared.bytes / shared.bytes_per_second, simulation.step_seconds)});
  return out + html_table({"Shared link", "Carries", "Bytes per step", "Busy"}, rows, 1);
}

/// How sure the choice is, and the plans that came next.
std::string next_html(const planner::Choice& choice, double step) {
  std::string out;
  if (choice.cases > 0)
    out +=
        html_note(fmt::format("With each device and link slower and faster by a fifth, this plan stays "
                              "within {:.0f} % of the best of these "
                              "in {} of {} cases{}.",
                              100 * choice.tolerance, choice.held, choice.cases,
                              choice.worst > 0 ? fmt::format("; at worst it takes {:.1f} % longer, {}",
                                                             100 * choice.worst, choice.worst_case)
                                               : ""));
  std::vector<std::vector<std::string>> rows;
  for (const auto& rival : choice.next)
    rows.push_back({rival.layout, rival.why_not, format_seconds(rival.step_seconds),
                    fmt::format("{:.2f}x", rival.step_seconds / step)});
  return rows.empty() ? out : out + html_table({"Plan", "Why not", "Per step", "Against this"}, rows, 2);
}

/// What changes of the cluster would bring: to this plan as it is, and planned anew.
std::string what_if_html(const PlanPageExtras& extras, double step) {
  const auto gain = [&](double then) { return then > 0 ? fmt::format("{:.2f}x", step / then) : "-"; };
  std::string out;
  std::vector<std::vector<std::string>> rows;
  for (const auto& one : extras.sensitivities)
    rows.push_back({one.change, format_seconds(one.step_seconds), gain(one.step_seconds)});
  if (!rows.empty())
    out += html_note("To this plan as it is, by simulation:") +
           html_table({"Change", "Per step", "Faster by"}, rows, 1);
  rows.clear();
  for (const PageScenario& one : extras.scenarios)
    rows.push_back({one.change, one.unchanged_step > 0 ? format_seconds(one.unchanged_step) : "cannot run",
                    one.problem.empty() ? format_seconds(one.step) : "no plan", gain(one.step)});
  if (!rows.empty())
    out += html_note("Planned anew:") +
           html_table({"Change", "This plan", "Planned anew", "Faster by"}, rows, 1);
  for (const PageScenario& one : extras.scenarios)
    if (!one.problem.empty()) out += html_note(fmt::format("{}: {}", one.change, one.problem));
  return out;
}

/// The timeline in figures, for those who do not see the drawing.
std::string busy_html(const Plan& plan, const std::vector<std::size_t>& ranks, const Simulation& simulation) {
  const std::vector<double> busy = busy_seconds(simulation, plan);
  std::vector<std::vector<std::string>> rows;
  for (const std::size_t rank : ranks)
    rows.push_back({group_name(plan, rank), std::to_string(plan.ranks[rank].stage),
                    std::to_string(plan.ranks[rank].replica), format_seconds(busy[rank]),
                    percent_of(busy[rank], simulation.step_seconds)});
  return html_details("In figures",
                      html_table({"Ranks", "Stage", "Replica", "Computes", "Of the step"}, rows, 1));
}

std::string why_html(const Plan& plan, const std::string& comparison) {
  std::string out = "<ul>\n";
  for (const std::string& note : plan.notes) out += fmt::format("<li>{}</li>\n", escape(note));
  if (!comparison.empty()) out += fmt::format("<li>{}</li>\n", escape(comparison));
  return out + "</ul>\n";
}

}  // namespace

std::string plan_page(const Plan& plan, const topology::ClusterFile& cluster, const Simulation& simulation,
                      const PlanPageExtras& extras) {
  const auto& job = plan.job;
  const double step = simulation.step_seconds;
  const std::vector<ReplicaGroup> groups = replica_groups(plan, cluster);
  const std::vector<std::size_t> ranks = shown_ranks(plan, groups);
  std::uint64_t most = 0;
  for (const RankMemory& memory : plan.prediction.memory) most = std::max(most, memory.total);
  std::string body =
      fmt::format("<h1>Plan for {}</h1>\n", escape(job.model.name.empty() ? "a model" : job.model.name));
  body += fmt::format(
      "<p class=\"lead\">{} ranks on {} hosts: {}{}, schedule {}, strategy {}, {} rows "
      "per step, for {}.</p>\n",
      plan.ranks.size(), planner::hosts_of(plan).size(), plan.shape(),
      job.tensor > 1 ? fmt::format(" × {} tensor ranks", job.tensor) : "",
      planner::schedule_name(job.schedule), escape(plan.strategy), job.global_batch,
      escape(planner::traits(job.framework).title));
  if (cluster.emulated)
    body += "<section class=\"emulated\"><p>The cluster is emulated on one machine.</p></section>\n";
  const double tokens = static_cast<double>(job.global_batch) * job.model.context / step;
  const planner::Utilisation used = planner::utilisation_of(plan, cluster, step);
  body += "<div class=\"tiles\">\n" + html_tile(format_seconds(step), "per step, predicted") +
          html_tile(short_number(tokens), "tokens per second") +
          (used.of_peak > 0 ? html_tile(fmt::format("{:.1f} %", 100 * used.of_peak),
                                        fmt::format("of the GPUs' peak (MFU), {:.3g} TFLOP/s each",
                                                    used.flops_per_second / 1e12))
                            : std::string()) +
          html_tile(fmt::format("{:.1f} %", 100 * simulation.bubble_fraction),
                    "of the ranks' time computes nothing") +
          html_tile(format_size(most), "on the fullest rank") + "</div>\n";
  body += html_section("Why this plan", why_html(plan, extras.comparison));
  if (plan.choice) body += html_section("The next best", next_html(*plan.choice, step));
  if (const std::string what_if = what_if_html(extras, step); !what_if.empty())
    body += html_section("What a change would bring", what_if);
  body += html_section("Stages", stages_html(plan, cluster, groups));
  const std::string part = ranks.size() < first_ranks(plan).size()
                               ? html_note("Of replicas that are alike only the first is shown.")
                               : std::string();
  body += html_section(
      "One step, rank by rank",
      html_note("Upper row of a rank: computing; lower row: network.") +
          html_legend({{"forward", "forward"},
                       {"backward", "backward"},
                       {"weights", "gradients of weights, put off"},
                       {"optimizer", "optimizer"},
                       {"transfer", "activations and their gradients"},
                       {"reduce", "all-reduce of the weights' gradients"},
                       {"exchange", "tokens to experts and back"}}) +
          draw_timeline(plan, ranks, simulation.spans, step, "Timeline of one step") + part +
          (joins_spans(plan, ranks, simulation.spans)
               ? html_note("There are too many micro-batches to draw each: a mark stands for a share of "
                           "the step, and stripes show how the time is divided.")
               : std::string()) +
          busy_html(plan, ranks, simulation));
  if (!plan.prediction.memory.empty())
    body += html_section("Memory per rank", html_legend({{"m-parameters", "parameters"},
                                                         {"m-gradients", "gradients"},
                                                         {"m-optimizer", "optimizer"},
                                                         {"m-activations", "activations at the most"},
                                                         {"m-buffers", "buffers"}}) +
                                                draw_memory(plan, cluster, ranks) + part +
                                                html_details("In figures", memory_table(plan, cluster)));
  body += html_section("Traffic per link and step", links_html(cluster, simulation));
  return html_page("Tombolo plan", body);
}

}  // namespace tombolo::tools
