// Writes report.html, a page that needs no other file.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/units.h"
#include "tools/demo/page/charts.h"
#include "tools/demo/report.h"
#include "tools/reports/html.h"
#include "tools/reports/svg.h"
#include "tools/reports/timeline.h"
#include "topology/files/link_table.h"

namespace tombolo::tools::demo {
namespace {

std::string emulation_notice(const Report& report) {
  std::string how = report.environment.emulation == "namespaces"
                        ? "Each host is a network namespace of its own, joined to the others by virtual "
                          "Ethernet pairs whose "
                          "rate the kernel limits."
                        : fmt::format(
                              "Network namespaces were not permitted ({}), so all hosts share the loopback "
                              "interface and the "
                              "rate limits are applied inside Tombolo's transport.",
                              report.environment.emulation_reason);
  return fmt::format(
      "<section class=\"emulated\">\n<h2>Emulated on one "
      "machine</h2>\n<p>{}</p>\n<p>{}</p>\n<p>{}</p>\n</section>\n",
      escape(how),
      escape(
          "No InfiniBand or RoCE hardware is involved: the fast NICs are declared InfiniBand in one cluster "
          "and RoCE in the other, and their bytes travel over TCP. All ranks share this machine's "
          "processors. What is real is the code: detection, measuring, planning, routing, collectives and "
          "training are the same as on hardware, and every figure below was measured in this run."),
      escape(fmt::format("A step computes for {} on this machine. {}.",
                         format_seconds(report.computing_seconds), describe(report.rates))));
}

std::string hosts_table(const Report& report) {
  std::string rows;
  for (const auto& host : report.cluster.hosts) {
    std::string nics;
    for (const auto& nic : host.nics) {
      if (!nics.empty()) nics += ", ";
      nics += fmt::format(
          "{} {}{}{}", nic.name, kind_title(nic.kind), nic.emulated ? " (emulated)" : "",
          nic.rate_bits_per_second == 0
              ? ""
              : fmt::format(" {}", format_bit_rate(static_cast<double>(nic.rate_bits_per_second) / 8)));
    }
    rows += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td></tr>\n", escape(host.name),
                        escape(host.cluster), escape(nics));
  }
  return "<div "
         "class=\"wide\"><table><thead><tr><th>Host</th><th>Cluster</th><th>NICs</th></tr></thead><tbody>" +
         rows + "</tbody></table></div>\n";
}

std::string placement_table(const Report& report) {
  std::string head = "<th>Run</th>", rows;
  if (report.runs.empty()) return {};
  for (int stage = 0; stage < report.runs.front().plan.pipeline_size(); ++stage) {
    head += fmt::format("<th>Stage {}</th>", stage);
  }
  for (const auto& run : report.runs) {
    rows += fmt::format("<tr><td>{}</td>", escape(run.title));
    for (int stage = 0; stage < run.plan.pipeline_size(); ++stage) {
      std::string hosts;
      for (const auto& place : run.plan.ranks) {
        if (place.stage != stage) continue;
        const auto* host = report.cluster.find_host(place.host);
        if (!hosts.empty()) hosts += " + ";
        hosts += place.host + (host == nullptr ? "" : fmt::format(" ({})", host->cluster));
      }
      int layers = run.plan.stage(stage).layers;
      rows += fmt::format("<td>{}: {} layers</td>", escape(hosts), layers);
    }
    rows += "</tr>\n";
  }
  return "<div class=\"wide\"><table><thead><tr>" + head + "</tr></thead><tbody>" + rows +
         "</tbody></table></div>\n";
}

std::string traffic_table(const Report& report) {
  std::string rows;
  for (const auto& run : report.runs) {
    for (const auto& link : run.links) {
      rows += fmt::format(
          "<tr><td>{}</td><td>{} {}</td><td>{} {}</td><td>{}</td><td class=\"number\">{}</td>"
          "<td class=\"number\">{}</td></tr>\n",
          escape(run.title), escape(link.from_host), escape(link.from_nic), escape(link.to_host),
          escape(link.to_nic), escape(kind_title(link.kind)), short_bytes(link.bytes_per_step),
          short_bytes(link.bytes));
    }
  }
  return "<details><summary>Every link</summary><div "
         "class=\"wide\"><table><thead><tr><th>Run</th><th>From</th>"
         "<th>To</th><th>Kind</th><th class=\"number\">Bytes per step</th><th class=\"number\">Bytes in "
         "all</th>"
         "</tr></thead><tbody>" +
         rows + "</tbody></table></div></details>\n";
}

/// The scale of the rates of all links between hosts.
RateScale scale_of(const topology::ClusterFile& cluster) {
  const topology::LinkTable links(cluster);
  double slowest = std::numeric_limits<double>::infinity(), fastest = 0;
  for (const auto& from : cluster.hosts)
    for (const auto& to : cluster.hosts)
      for (const auto& nic : from.nics) {
        const auto link = links.find(from.name, nic.name, to.name, nic.name);
        if (&from == &to || !link) continue;
        slowest = std::min(slowest, link->bytes_per_second);
        fastest = std::max(fastest, link->bytes_per_second);
      }
  return {std::min(slowest, fastest), fastest};
}

std::string heat_maps(const Report& report) {
  std::vector<std::pair<std::string, std::string>> nics;  // name, kinds
  for (const auto& host : report.cluster.hosts) {
    for (const auto& nic : host.nics) {
      auto at =
          std::find_if(nics.begin(), nics.end(), [&](const auto& seen) { return seen.first == nic.name; });
      std::string kind = kind_title(nic.kind);
      if (at == nics.end()) {
        nics.emplace_back(nic.name, kind);
      } else if (at->second.find(kind) == std::string::npos) {
        at->second += fmt::format(" and {}", kind);
      }
    }
  }
  const RateScale scale = scale_of(report.cluster);
  std::string out = "<div class=\"maps\">\n";
  for (const auto& [name, kinds] : nics) {
    out += fmt::format("<div><h3>{}: {}</h3>\n{}</div>\n", escape(name), escape(kinds),
                       draw_heat_map(report, name, scale));
  }
  std::vector<std::pair<std::string, std::string>> legend;
  for (int shade = 0; shade < RateScale::kShades; shade += 2)
    legend.emplace_back(fmt::format("heat{}", shade), "from " + format_bit_rate(scale.from(shade)));
  return out + "</div>\n" + html_legend(legend);
}

std::string timelines(const Report& report) {
  double longest = 0;
  auto reach = [&](const std::vector<planner::Span>& spans) {
    for (const auto& span : spans) longest = std::max(longest, span.end_seconds);
  };
  for (const auto& run : report.runs) {
    reach(run.predicted.spans);
    reach(run.measured);
  }
  std::string out = html_legend({{"forward", "forward"},
                                 {"backward", "backward"},
                                 {"optimizer", "optimizer"},
                                 {"transfer", "activations and their gradients"},
                                 {"reduce", "all-reduce of the weights' gradients"}});
  for (const auto& run : report.runs) {
    out += fmt::format("<h3>{}: predicted</h3>\n{}", escape(run.title),
                       draw_timeline(run.plan, first_ranks(run.plan), run.predicted.spans, longest,
                                     run.title + ", predicted timeline"));
    if (run.measured.empty()) continue;
    out += fmt::format("<h3>{}: measured</h3>\n{}", escape(run.title),
                       draw_timeline(run.plan, first_ranks(run.plan), run.measured, longest,
                                     run.title + ", measured timeline"));
  }
  return out;
}

std::string other_plans(const Report& report) {
  std::vector<const Run*> all;
  for (const auto* runs : {&report.runs, &report.more})
    for (const Run& run : *runs) all.push_back(&run);
  std::stable_sort(all.begin(), all.end(), [](const Run* a, const Run* b) {
    return a->measured_step_seconds < b->measured_step_seconds;
  });
  std::vector<std::vector<std::string>> rows;
  for (const Run* run : all)
    rows.push_back({run->title, fmt::format("{} × {}", run->plan.pipeline_size(), run->plan.data_size()),
                    std::to_string(run->plan.job.micro_batch), format_seconds(run->predicted.step_seconds),
                    format_seconds(run->measured_step_seconds), run->prediction_error_text()});
  return html_table({"Plan", "Stages × replicas", "Micro-batch", "Predicted step", "Measured step", "Off by"},
                    rows, 2) +
         html_note(report.order_as_predicted()
                       ? "Fastest first; the predicted order is the measured one."
                       : "Fastest first; the predicted order is not the measured one.");
}

std::string environment_list(const Report& report) {
  const auto& e = report.environment;
  std::string out = "<dl>\n";
  auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) out += fmt::format("<dt>{}</dt><dd>{}</dd>\n", name, escape(value));
  };
  if (!report.runs.empty()) {
    const auto& job = report.runs.front().plan.job;
    add("Model", fmt::format("GPT-2 shape, {} layers, width {}, {} heads, context {}, bytes as tokens, {} "
                             "parameters",
                             job.model.layers, job.model.hidden, job.model.heads, job.model.context,
                             short_number(static_cast<double>(job.model.parameters()))));
    add("Batch", fmt::format("{} rows of {} tokens in micro-batches of {}; pipeline {} × data {}",
                             job.global_batch, job.model.context, job.micro_batch, job.pipeline, job.data));
  }
  add("Text", fmt::format("{}, {}", report.data, short_bytes(report.data_bytes)));
  add("Matrix products", report.products);
  add("Attained per rank", fmt::format("{}FLOP/s with a core to itself; all share {:g} cores",
                                       short_number(report.flops_per_second), report.cores));
  add("Rates", describe(report.rates));
  add("Processor", fmt::format("{}, {} cores usable", e.processor, e.cores));
  add("Kernel", e.kernel);
  add("Emulation", e.emulation);
  add("Tombolo", e.commit.empty() ? e.version : fmt::format("{}, commit {}", e.version, e.commit));
  add("Compiler", e.compiler);
  add("Started", e.started);
  add("Whole demo", format_seconds(e.demo_seconds));
  return out + "</dl>\n";
}

}  // namespace

std::string Report::to_html() const {
  std::string body = "<h1>One training job across two clusters</h1>\n";
  body +=
      "<p class=\"lead\">Tombolo found the NICs of four hosts in two clusters, measured every link, planned "
      "the "
      "placement, and trained the same GPT three ways.</p>\n";
  if (cluster.emulated) body += emulation_notice(*this);
  std::string losses = loss.empty() ? "none" : fmt::format("{:.2f} → {:.2f}", loss.front(), loss.back());
  body += "<div class=\"tiles\">\n";
  body +=
      html_tile(fmt::format("{:.2f}×", speedup()), "as fast as one communicator over the NIC kind all share");
  body += html_tile(fmt::format("{:.2f}×", speedup_from_placement()), "of that from the placement alone");
  body += html_tile(fmt::format("{:.0f} %", std::round(largest_prediction_error() * 100)),
                    "largest error of a predicted step time");
  body += html_tile(losses, fmt::format("loss over {} steps", loss.size()));
  body += "</div>\n";
  for (const std::string& remark : remarks()) body += html_note("Note: " + remark + ".");

  body +=
      html_section("Tokens per second",
                   draw_tokens(*this) +
                       html_note("The same steps from the same initial weights; the losses of the three " +
                                 loss_agreement() + "."));
  body += html_section("Where the ranks went", placement_table(*this));
  body +=
      html_section("Predicted against measured",
                   draw_predictions(*this) +
                       html_legend({{"bar", "bar: measured (median step)"}, {"mark", "mark: predicted"}}) +
                       html_note("The predictions come from the event simulator, fed with the measured "
                                 "links, the measured times of the layers, and "
                                 "with what a few steps of the Holmes plan said of passes, of sending, and "
                                 "of how the ranks share the cores. They "
                                 "were made anew in every round, before its steps were run; of the rounds "
                                 "the middle one counts."));
  if (!more.empty()) body += html_section("Other plans of the same job", other_plans(*this));
  body += html_section(
      "Bytes per step",
      draw_traffic(*this) +
          html_legend(
              {{"infiniband", "InfiniBand (emulated)"}, {"roce", "RoCE (emulated)"}, {"tcp", "Ethernet"}}) +
          html_note("Payload counted by the communicators, both directions. Gradients are far larger than "
                    "activations: the holmes placement keeps them inside a cluster.") +
          traffic_table(*this));
  body += html_section(
      "What the links gave",
      html_note("Attained bandwidth and one-way latency from row to column, both directions at once.") +
          heat_maps(*this) + hosts_table(*this));
  body +=
      html_section("One step, rank by rank",
                   html_note("Upper row of a rank: computing; lower row: network. All on one scale of time. "
                             "Measured are computing "
                             "and all-reduces of one step; what a rank waits for shows as a gap.") +
                       timelines(*this));
  body += html_section(
      "Loss", draw_loss(*this) +
                  html_note(fmt::format("{} steps on {} in {}, with the fastest of the three.", loss.size(),
                                        data, format_seconds(train_seconds))) +
                  (sample.empty() ? std::string()
                                  : fmt::format("<h3>What it writes after these steps</h3>\n<pre>{}</pre>\n",
                                                escape(sample))));
  body += html_section("How it was measured", environment_list(*this));
  return html_page("Tombolo demo", body);
}

}  // namespace tombolo::tools::demo
