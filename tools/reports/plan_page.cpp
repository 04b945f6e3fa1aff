#include "tools/reports/plan_page.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/units.h"
#include "tools/reports/html.h"
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
/// the first replica.
std::vector<std::size_t> shown_ranks(const Plan& plan) {
  std::vector<std::size_t> ranks = first_ranks(plan);
  if (ranks.size() > kMostRankRows)
    std::erase_if(ranks, [&](std::size_t rank) { return plan.ranks[rank].replica != 0; });
  if (ranks.size() > kMostRankRows) ranks.resize(kMostRankRows);
  return ranks;
}

double memory_of_device(const topology::ClusterFile& cluster, const planner::RankPlacement& place) {
  const auto* host = cluster.find_host(place.host);
  if (host == nullptr || static_cast<std::size_t>(place.device) >= host->devices.size()) return 0;
  return host->devices[static_cast<std::size_t>(place.device)].memory_bytes;
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

std::string stages_html(const Plan& plan, const topology::ClusterFile& cluster) {
  std::vector<std::vector<std::string>> rows;
  for (int replica = 0; replica < plan.data_size(); ++replica) {
    for (int stage = 0; stage < plan.pipeline_size(replica); ++stage) {
      std::set<std::string> hosts, clusters;
      int tensor = 0;
      for (const auto& place : plan.ranks) {
        if (place.replica != replica || place.stage != stage) continue;
        ++tensor;
        hosts.insert(place.host);
        if (const auto* host = cluster.find_host(place.host)) clusters.insert(host->cluster);
      }
      const auto& pipeline = plan.pipelines[static_cast<std::size_t>(replica)];
      rows.push_back({std::to_string(replica), std::to_string(stage),
                      fmt::format("{}", fmt::join(hosts, ", ")), fmt::format("{}", fmt::join(clusters, ", ")),
                      std::to_string(plan.layers_at(stage, replica)), std::to_string(tensor),
                      std::to_string(pipeline.rows), std::to_string(pipeline.micro_batch)});
    }
    if (plan.uniform() && plan.ranks.size() > kMostRankRows) break;
  }
  std::string out = html_table(
      {"Replica", "Stage", "Hosts", "Cluster", "Layers", "Tensor ranks", "Rows per step", "Micro-batch"},
      rows, 4);
  if (plan.uniform() && plan.ranks.size() > kMostRankRows)
    out += html_note(fmt::format("The first of {} replicas, which are all alike.", plan.data_size()));
  return out;
}

std::string links_html(const topology::ClusterFile& cluster, const Simulation& simulation) {
  if (simulation.links.empty()) return html_note("Nothing is sent between hosts.");
  auto sorted = simulation.links;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  constexpr std::size_t kMostLinkRows = 200;
  const topology::LinkTable attained_by(cluster);
  std::vector<std::vector<std::string>> rows;
  for (const auto& link : sorted) {
    if (rows.size() == kMostLinkRows) break;
    std::string kind = "-", share = "-";
    if (const auto* host = cluster.find_host(link.from_host))
      for (const auto& nic : host->nics)
        if (nic.name == link.from_nic) kind = kind_title(nic.kind);
    if (const auto attained = attained_by.find(link.from_host, link.from_nic, link.to_host, link.to_nic))
      share =
          fmt::format("{:.0f} %", 100 * link.bytes / attained->bytes_per_second / simulation.step_seconds);
    rows.push_back({link.from_host + "/" + link.from_nic, link.to_host + "/" + link.to_nic, kind,
                    short_bytes(link.bytes), share});
  }
  std::string out = html_table({"From", "To", "Kind", "Bytes per step", "Busy"}, rows, 3);
  if (sorted.size() > kMostLinkRows)
    out += html_note(fmt::format("The {} busiest of {}.", kMostLinkRows, sorted.size()));
  if (simulation.shared.empty()) return out;
  rows.clear();
  for (const auto& shared : simulation.shared)
    rows.push_back(
        {shared.name, format_bit_rate(shared.bytes_per_second), short_bytes(shared.bytes),
         fmt::format("{:.0f} %", 100 * shared.bytes / shared.bytes_per_second / simulation.step_seconds)});
  return out + html_table({"Shared link", "Carries", "Bytes per step", "Busy"}, rows, 1);
}

std::string why_html(const Plan& plan, const std::string& comparison) {
  std::string out = "<ul>\n";
  for (const std::string& note : plan.notes) out += fmt::format("<li>{}</li>\n", escape(note));
  if (!comparison.empty()) out += fmt::format("<li>{}</li>\n", escape(comparison));
  return out + "</ul>\n";
}

}  // namespace

std::string plan_page(const Plan& plan, const topology::ClusterFile& cluster, const Simulation& simulation,
                      const std::string& comparison) {
  const auto& job = plan.job;
  const std::vector<std::size_t> ranks = shown_ranks(plan);
  std::uint64_t most = 0;
  for (const RankMemory& memory : plan.prediction.memory) most = std::max(most, memory.total);
  std::string body =
      fmt::format("<h1>Plan for {}</h1>\n", escape(job.model.name.empty() ? "a model" : job.model.name));
  body += fmt::format(
      "<p class=\"lead\">{} ranks on {} hosts: {}{}, schedule {}, strategy {}, {} rows "
      "per step.</p>\n",
      plan.ranks.size(), planner::hosts_of(plan).size(), plan.shape(),
      job.tensor > 1 ? fmt::format(" × {} tensor ranks", job.tensor) : "",
      planner::schedule_name(job.schedule), escape(plan.strategy), job.global_batch);
  if (cluster.emulated)
    body += "<section class=\"emulated\"><p>The cluster is emulated on one machine.</p></section>\n";
  const double tokens = static_cast<double>(job.global_batch) * job.model.context / simulation.step_seconds;
  body += "<div class=\"tiles\">\n" +
          html_tile(format_seconds(simulation.step_seconds), "per step, predicted") +
          html_tile(short_number(tokens), "tokens per second") +
          html_tile(fmt::format("{:.1f} %", 100 * simulation.bubble_fraction),
                    "of the ranks' time computes nothing") +
          html_tile(format_size(most), "on the fullest rank") + "</div>\n";
  body += html_section("Why this plan", why_html(plan, comparison));
  body += html_section("Stages", stages_html(plan, cluster));
  body += html_section(
      "One step, rank by rank",
      html_note("Upper row of a rank: computing; lower row: network.") +
          html_legend({{"forward", "forward"},
                       {"backward", "backward"},
                       {"weights", "gradients of weights, put off"},
                       {"optimizer", "optimizer"},
                       {"transfer", "activations and their gradients"},
                       {"reduce", "all-reduce of the weights' gradients"}}) +
          draw_timeline(plan, ranks, simulation.spans, simulation.step_seconds, "Timeline of one step") +
          (ranks.size() < first_ranks(plan).size() ? html_note("Only the first replica is shown.")
                                                   : std::string()));
  if (!plan.prediction.memory.empty())
    body += html_section("Memory per rank", html_legend({{"m-parameters", "parameters"},
                                                         {"m-gradients", "gradients"},
                                                         {"m-optimizer", "optimizer"},
                                                         {"m-activations", "activations at the most"},
                                                         {"m-buffers", "buffers"}}) +
                                                draw_memory(plan, cluster, ranks));
  body += html_section("Traffic per link and step", links_html(cluster, simulation));
  return html_page("Tombolo plan", body);
}

}  // namespace tombolo::tools
