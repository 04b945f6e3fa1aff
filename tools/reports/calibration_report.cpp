#include "tools/reports/calibration_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/median.h"
#include "base/units.h"
#include "planner/explain/utilisation.h"
#include "tools/cli/table.h"
#include "tools/reports/html.h"
#include "tools/reports/svg.h"

namespace tombolo::tools {
namespace {

using planner::Calibration;
using planner::MeasuredRun;
using planner::Plan;
using planner::RankSeconds;

/// One line of the comparison, in seconds.
struct Compared {
  std::string what;
  double predicted = 0, measured = 0, calibrated = 0;
};

double error_of(double predicted, double measured) {
  return measured > 0 ? predicted / measured - 1 : 0;
}

std::string error_text(double predicted, double measured) {
  if (!(measured > 0)) return "-";
  const auto percent = std::lround(100 * error_of(predicted, measured));
  return percent == 0 ? "0 %" : fmt::format("{:+d} %", percent);
}

/// The seconds of a stage: the mean over its replicas.
RankSeconds of_stage(const Plan& plan, int stage, const std::vector<RankSeconds>& ranks) {
  RankSeconds sum;
  double count = 0;
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    if (plan.ranks[rank].stage != stage) continue;
    sum.forward += ranks[rank].forward;
    sum.backward += ranks[rank].backward;
    sum.update += ranks[rank].update;
    ++count;
  }
  return {sum.forward / count, sum.backward / count, sum.update / count};
}

std::vector<RankSeconds> measured_ranks(const MeasuredRun& run) {
  std::vector<RankSeconds> ranks;
  for (const auto& rank : run.ranks) ranks.push_back(rank.seconds);
  return ranks;
}

std::vector<Compared> comparisons(const Plan& plan, const MeasuredRun& run, const Calibration& calibration) {
  std::vector<Compared> lines{
      {"step", calibration.predicted.step_seconds, run.median_step(), calibration.calibrated.step_seconds}};
  if (run.ranks.empty()) return lines;
  const auto measured = measured_ranks(run);
  int stages = 0;
  for (const auto& place : plan.ranks) stages = std::max(stages, place.stage + 1);
  for (int stage = 0; stage < stages; ++stage) {
    const RankSeconds before = of_stage(plan, stage, calibration.predicted_ranks),
                      seen = of_stage(plan, stage, measured),
                      after = of_stage(plan, stage, calibration.calibrated_ranks);
    lines.push_back({fmt::format("stage {} forward", stage), before.forward, seen.forward, after.forward});
    lines.push_back(
        {fmt::format("stage {} backward", stage), before.backward, seen.backward, after.backward});
    lines.push_back({fmt::format("stage {} update", stage), before.update, seen.update, after.update});
  }
  return lines;
}

/// The bytes per step of one link.
struct ComparedLink {
  planner::LinkBytes link;
  double predicted = 0, measured = 0;
};

/// Nothing where the run does not tell what its ranks sent.
std::vector<ComparedLink> compared_links(const MeasuredRun& run, const Calibration& calibration) {
  if (run.ranks.empty()) return {};
  std::vector<ComparedLink> links;
  const auto at = [&](const planner::LinkBytes& link) -> ComparedLink& {
    for (ComparedLink& known : links)
      if (known.link.from_host == link.from_host && known.link.from_nic == link.from_nic &&
          known.link.to_host == link.to_host && known.link.to_nic == link.to_nic)
        return known;
    return links.emplace_back(ComparedLink{link, 0, 0});
  };
  for (const auto& link : calibration.predicted.links) at(link).predicted += link.bytes;
  for (const auto& link : run.links) at(link).measured += link.bytes;
  return links;
}

std::string steps_text(const MeasuredRun& run) {
  const std::vector<double> counted(run.step_seconds.begin() + run.warm_up, run.step_seconds.end());
  const auto [least, most] = std::ranges::minmax(counted);
  return fmt::format("{} steps after {} that warmed up: median {}, from {} to {}", counted.size(),
                     run.warm_up, format_seconds(median(counted)), format_seconds(least),
                     format_seconds(most));
}

std::string correction_text(const planner::Correction& one) {
  const std::string where = one.host.empty() ? fmt::format("device \"{}\"", one.name)
                                             : fmt::format("{} {} ({})", one.host, one.device, one.name);
  if (one.forward == one.backward)
    return fmt::format("{}: passes take {:.2f} times the predicted time, the update {:.2f} times", where,
                       one.forward, one.update);
  return fmt::format("{}: forward takes {:.2f} times the predicted time, backward {:.2f}, the update {:.2f}",
                     where, one.forward, one.backward, one.update);
}

/// Where only the steps are known: one factor for all passes, and whether that explains the steps.
std::vector<std::string> lines_of_steps(const MeasuredRun& run, const Calibration& calibration) {
  const double factor = calibration.corrections.front().forward;
  std::vector<std::string> lines{
      calibration.profile
          ? fmt::format("on every device passes take {:.2f} times the predicted time", factor)
          : fmt::format("on every device FLOP/s are the predicted divided by {:.2f}", factor)};
  if (planner::at_most_spread(factor))
    lines.push_back(
        fmt::format("a factor of {} is the most that is tried: check that the log is of this plan",
                    planner::kMostSpread));
  constexpr double kExplained = 0.02;
  const double step = calibration.calibrated.step_seconds, measured = run.median_step();
  if (std::abs(step / measured - 1) > kExplained)
    lines.push_back(
        fmt::format("with that a step takes {}, and {} was measured: products do not explain the difference; "
                    "do not plan by these FLOP/s",
                    format_seconds(step), format_seconds(measured)));
  return lines;
}

/// One line per device, or for all of them where only the steps are known; and one about sending where the
/// profile states its cost.
std::vector<std::string> correction_lines(const MeasuredRun& run, const Calibration& calibration) {
  std::vector<std::string> lines;
  if (run.ranks.empty()) return lines_of_steps(run, calibration);
  for (const auto& one : calibration.corrections) lines.push_back(correction_text(one));
  if (calibration.profile && calibration.profile->sending_seconds_per_byte > 0)
    lines.push_back(fmt::format("sending takes {:.2f} ns of a processor for every byte",
                                calibration.profile->sending_seconds_per_byte * 1e9));
  return lines;
}

/// What the framework said of its speed, beside the same by the plan's model; empty where it said nothing.
std::string speed_text(const Plan& plan, const MeasuredRun& run, const Calibration& calibration) {
  if (run.flops_per_second <= 0) return {};
  constexpr double kOtherModel = 0.15;
  const double counted =
      planner::utilisation_of(plan, calibration.cluster, run.median_step()).flops_per_second;
  return fmt::format("The log counts {:.0f} TFLOP/s per GPU; by the plan's model its steps attain {:.0f}{}",
                     run.flops_per_second / 1e12, counted / 1e12,
                     std::abs(counted / run.flops_per_second - 1) > kOtherModel
                         ? ": is it a log of this model, on as many GPUs?"
                         : ".");
}

std::vector<std::vector<std::string>> comparison_rows(const std::vector<Compared>& lines) {
  std::vector<std::vector<std::string>> rows;
  for (const Compared& line : lines)
    rows.push_back({line.what, format_seconds(line.predicted), format_seconds(line.measured),
                    error_text(line.predicted, line.measured), format_seconds(line.calibrated),
                    error_text(line.calibrated, line.measured)});
  return rows;
}

std::vector<std::vector<std::string>> link_rows(const std::vector<ComparedLink>& links) {
  std::vector<std::vector<std::string>> rows;
  for (const ComparedLink& one : links)
    rows.push_back({one.link.from_host + "/" + one.link.from_nic, one.link.to_host + "/" + one.link.to_nic,
                    short_bytes(one.predicted), short_bytes(one.measured),
                    error_text(one.predicted, one.measured)});
  return rows;
}

const std::vector<std::string> kComparedHead{"per step", "predicted",  "measured",
                                             "error",    "calibrated", "error"};
const std::vector<std::string> kLinksHead{"from", "to", "predicted", "measured", "error"};

/// A drawing with a row per rank: seconds computed as predicted, as measured and as calibrated.
std::string draw_ranks(const Plan& plan, const MeasuredRun& run, const Calibration& calibration) {
  constexpr double kWidth = 900, kLeft = 240, kRight = 90, kBar = 13, kGap = 10;
  constexpr std::size_t kMost = 32;
  const std::size_t count = std::min(plan.ranks.size(), kMost);
  const auto measured = measured_ranks(run);
  double top = 0;
  for (const auto* ranks : {&calibration.predicted_ranks, &measured, &calibration.calibrated_ranks})
    for (std::size_t rank = 0; rank < count; ++rank) top = std::max(top, (*ranks)[rank].computing());
  Svg svg(kWidth, static_cast<double>(count) * (3 * kBar + kGap) + 6, "What each rank computes in a step");
  const double scale = top > 0 ? (kWidth - kLeft - kRight) / top : 0;
  for (std::size_t rank = 0; rank < count; ++rank) {
    double y = 4 + static_cast<double>(rank) * (3 * kBar + kGap);
    svg.text(kLeft - 90, y + 2 * kBar - 2, fmt::format("rank {} on {}", rank, plan.ranks[rank].host),
             "name end");
    const std::array<std::pair<const char*, const RankSeconds*>, 3> bars{
        {{"predicted", &calibration.predicted_ranks[rank]},
         {"measured", &measured[rank]},
         {"calibrated", &calibration.calibrated_ranks[rank]}}};
    for (const auto& [name, seconds] : bars) {
      svg.text(kLeft - 8, y + kBar - 3, name, "tick end");
      double x = kLeft;
      const std::array<std::pair<const char*, double>, 3> parts{
          {{"forward", seconds->forward}, {"backward", seconds->backward}, {"optimizer", seconds->update}}};
      for (const auto& [part, value] : parts) {
        svg.rectangle(x, y, std::max(value * scale - 0.6, 0.3), kBar - 2, fmt::format("t-{}", part),
                      fmt::format("{} {}: {}", name, part, format_seconds(value)), 1);
        x += value * scale;
      }
      svg.text(x + 6, y + kBar - 3, format_seconds(seconds->computing()), "value");
      y += kBar;
    }
  }
  std::string out = svg.finish();
  if (count < plan.ranks.size())
    out += html_note(fmt::format("The first {} of {} ranks.", count, plan.ranks.size()));
  return out;
}

}  // namespace

std::string describe_calibration(const Plan& plan, const MeasuredRun& run, const Calibration& calibration) {
  std::string text = "Measured: " + steps_text(run) + '\n';
  for (const std::string& note : run.notes) text += "  - " + note + '\n';
  text += '\n';
  Table table(kComparedHead);
  for (auto& row : comparison_rows(comparisons(plan, run, calibration))) table.add(std::move(row));
  text += table.text(terminal_width());
  if (const std::string speed = speed_text(plan, run, calibration); !speed.empty())
    text += '\n' + speed + '\n';
  const auto links = compared_links(run, calibration);
  if (!links.empty()) {
    Table bytes(kLinksHead);
    for (auto& row : link_rows(links)) bytes.add(std::move(row));
    text += "\nBytes per step:\n" + bytes.text(terminal_width());
  }
  text += "\nCorrections:\n";
  for (const std::string& line : correction_lines(run, calibration)) text += "  - " + line + '\n';
  return text;
}

Json calibration_json(const Plan& plan, const MeasuredRun& run, const Calibration& calibration) {
  Json json{{"steps", static_cast<int>(run.step_seconds.size()) - run.warm_up},
            {"compared", Json::array()},
            {"links", Json::array()},
            {"corrections", Json::array()}};
  if (!run.notes.empty()) json["notes"] = run.notes;
  for (const Compared& line : comparisons(plan, run, calibration))
    json["compared"].push_back({{"what", line.what},
                                {"predicted_seconds", line.predicted},
                                {"measured_seconds", line.measured},
                                {"error", error_of(line.predicted, line.measured)},
                                {"calibrated_seconds", line.calibrated},
                                {"calibrated_error", error_of(line.calibrated, line.measured)}});
  for (const ComparedLink& one : compared_links(run, calibration))
    json["links"].push_back({{"from", one.link.from_host + "/" + one.link.from_nic},
                             {"to", one.link.to_host + "/" + one.link.to_nic},
                             {"predicted_bytes", one.predicted},
                             {"measured_bytes", one.measured}});
  for (const auto& one : calibration.corrections) {
    Json item{
        {"name", one.name}, {"forward", one.forward}, {"backward", one.backward}, {"update", one.update}};
    if (!one.host.empty()) {
      item["host"] = one.host;
      item["device"] = one.device;
    }
    json["corrections"].push_back(std::move(item));
  }
  if (calibration.profile) json["sending_seconds_per_byte"] = calibration.profile->sending_seconds_per_byte;
  return json;
}

std::string calibration_page(const Plan& plan, const topology::ClusterFile& cluster, const MeasuredRun& run,
                             const Calibration& calibration) {
  const double measured = run.median_step();
  std::string body = "<h1>Predicted against measured</h1>\n";
  body += fmt::format("<p class=\"lead\">{}, {} ranks. {}.</p>\n", escape(plan.shape()), plan.ranks.size(),
                      escape(steps_text(run)));
  if (cluster.emulated)
    body += "<section class=\"emulated\"><p>The cluster is emulated on one machine.</p></section>\n";
  body += "<div class=\"tiles\">\n" + html_tile(format_seconds(measured), "per step, measured") +
          html_tile(format_seconds(calibration.predicted.step_seconds),
                    "predicted: " + error_text(calibration.predicted.step_seconds, measured)) +
          html_tile(format_seconds(calibration.calibrated.step_seconds),
                    "calibrated: " + error_text(calibration.calibrated.step_seconds, measured)) +
          "</div>\n";
  std::string notes;
  for (const std::string& note : run.notes) notes += html_note(escape(note));
  if (run.ranks.empty()) {
    body += html_section(
        "Step", html_note("Only the steps of the run are known.") +
                    html_table(kComparedHead, comparison_rows(comparisons(plan, run, calibration)), 1) +
                    html_note(escape(speed_text(plan, run, calibration))) + notes);
  } else {
    body += html_section(
        "Step and stages",
        html_note("Of a stage: seconds per step that a rank computes, the mean over its replicas.") +
            html_table(kComparedHead, comparison_rows(comparisons(plan, run, calibration)), 1));
    body += html_section(
        "What each rank computes in a step",
        html_legend({{"forward", "forward"}, {"backward", "backward"}, {"optimizer", "optimizer"}}) +
            draw_ranks(plan, run, calibration));
    const auto links = compared_links(run, calibration);
    body +=
        html_section("Bytes per link and step", links.empty() ? html_note("Nothing is sent between hosts.")
                                                              : html_table(kLinksHead, link_rows(links), 2));
  }
  std::string corrections = "<ul>\n";
  for (const std::string& line : correction_lines(run, calibration))
    corrections += fmt::format("<li>{}</li>\n", escape(line));
  std::string_view what_remains =
      "What remains of the step's error lies in what crosses the network and in waiting for it.";
  if (run.ranks.empty())
    what_remains =
        "All of the step's error is spread over the passes, for the log does not tell where it lies.";
  else if (cluster.shared_processor && run.ranks.front().processor)
    what_remains = "The ranks share a processor: what a step took beside all this is spread over the passes.";
  body += html_section("Corrections", corrections + "</ul>\n" + html_note(std::string(what_remains)));
  return html_page("Tombolo: predicted against measured", body);
}

}  // namespace tombolo::tools
