#include "planner/explain/choose.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <span>
#include <tuple>

#include "base/units.h"
#include "planner/cost/memory.h"
#include "planner/explain/disturbance.h"
#include "planner/explain/remedies.h"
#include "planner/model/index.h"
#include "topology/files/link_table.h"

namespace tombolo::planner {

namespace {

constexpr double kDisturbance = 0.2;
constexpr std::size_t kMostTriedRanks = 1024;

/// What is to be said of a plan beside its time.
struct Merits {
  double crossing_seconds = 0;  ///< in which links between clusters are busy, all together
  double memory_share = 0;      ///< of the fullest device; 0: no size is known
  int complications = 0;        ///< the number of choices that are not the plainest
  double mean = 0;              ///< of its seconds over those of the best, over all cases
};

double crossing_seconds(const SearchContext& context, const topology::LinkTable& links, const Plan& plan) {
  const auto cluster_of = [&](const std::string& host) -> const std::string& {
    return context.view.host(context.view.host_index(host)).cluster;
  };
  double seconds = 0;
  for (const LinkBytes& link : simulate(plan, context.view, {.spans = false}).links) {
    if (cluster_of(link.from_host) == cluster_of(link.to_host)) continue;
    const auto attained = links.find(link.from_host, link.from_nic, link.to_host, link.to_nic);
    if (attained && attained->bytes_per_second > 0) seconds += link.bytes / attained->bytes_per_second;
  }
  return seconds;
}

double memory_share(const SearchContext& context, const Plan& plan) {
  double most = 0;
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const RankPlacement& place = plan.ranks[rank];
    const auto& device = context.view.host(context.view.host_index(place.host)).devices[at(place.device)];
    if (device.memory_bytes > 0)
      most = std::max(most, static_cast<double>(plan.prediction.memory[rank].total) / device.memory_bytes);
  }
  return most;
}

int complications(const Plan& plan) {
  const Job& job = plan.job;
  const auto any_stage = [&](auto is) {
    return std::ranges::any_of(plan.pipelines,
                               [&](const Pipeline& one) { return std::ranges::any_of(one.stages, is); });
  };
  const int layers = plan.stages().front().layers;
  int count = 0;
  count += any_stage([](const Stage& stage) { return stage.first_layer > 0; });
  count += any_stage([](const Stage& stage) { return stage.tensor > 1; });
  count += job.schedule != Schedule::kOneForwardOneBackward;
  count += job.recompute != Recompute::kNone;
  count += job.expert_parallel > 1;
  count += any_stage([&](const Stage& stage) { return stage.layers != layers; });
  count += !plan.uniform();
  count += !plan.left_out.empty();
  return count;
}

/// "13 13 27 27", or of many stages "5 to 7 each".
std::string layers_text(const Plan& plan) {
  constexpr int kMostListed = 8;
  std::vector<int> layers;
  for (int slot = 0; slot < plan.pipeline_size(); ++slot) layers.push_back(plan.layers_at(slot));
  const auto [least, most] = std::ranges::minmax(layers);
  if (least == most) return fmt::format("{} each", least);
  return plan.pipeline_size() <= kMostListed ? fmt::format("{}", fmt::join(layers, " "))
                                             : fmt::format("{} to {} each", least, most);
}

/// The clusters of the first replica's stages: "A A H H", or of many stages "A x 8, H x 8".
std::string clusters_text(const SearchContext& context, const Plan& plan) {
  constexpr int kMostListed = 8;
  std::vector<std::pair<std::string, int>> runs;
  for (int slot = 0; slot < plan.pipeline_size(); ++slot) {
    const topology::Host* host =
        context.view.cluster().find_host(plan.ranks[at(plan.rank_at(slot, 0, 0))].host);
    const std::string cluster = host == nullptr ? "?" : host->cluster;
    if (runs.empty() || runs.back().first != cluster) runs.emplace_back(cluster, 0);
    ++runs.back().second;
  }
  std::vector<std::string> words;
  for (const auto& [cluster, stages] : runs)
    if (plan.pipeline_size() <= kMostListed)
      words.insert(words.end(), at(stages), cluster);
    else
      words.push_back(fmt::format("{} x {}", cluster, stages));
  return fmt::format("{}", fmt::join(words, plan.pipeline_size() <= kMostListed ? " " : ", "));
}

/// The layout, and where plans of one layout may differ: their stages' layers and places.
std::string words_of(const SearchContext& context, const Plan& plan) {
  const std::string layout = plan.uniform() ? layout_text(plan.job) : plan.shape();
  if (plan.pipeline_size() == 1) return layout;
  return fmt::format("{}; layers {}, on {}", layout, layers_text(plan), clusters_text(context, plan));
}

/// The seconds of every plan in every case; entry 0 is the cluster as it is described.
std::vector<std::vector<double>> seconds_by_case(const SearchContext& context, std::span<const Plan> plans,
                                                 const std::vector<Disturbance>& cases) {
  std::vector<std::vector<double>> all(1);
  for (const Plan& plan : plans) all[0].push_back(plan.prediction.step_seconds);
  std::set<int> hosts;
  for (const LauncherSlot& slot : context.launcher_slots) hosts.insert(slot.host);
  std::vector<std::string> names;
  for (const int host : hosts) names.push_back(context.view.host(host).name);
  for (const Disturbance& one : cases) {
    const ClusterView view(one.cluster, plans.front().routing, names);
    auto& seconds = all.emplace_back();
    for (const Plan& plan : plans) seconds.push_back(simulate(plan, view, {.spans = false}).step_seconds);
  }
  return all;
}

/// Plans beside each other.
struct Comparison {
  std::vector<std::vector<double>> seconds;  ///< by case, the first as the cluster is described, and plan
  std::vector<Merits> merits;                ///< by plan
  double best_mean = std::numeric_limits<double>::infinity(), most_crossing = 0;

  /// The steps in which merits are compared, so that small differences do not decide.
  std::tuple<int, int, int> steps(std::size_t plan) const {
    const auto count = [](double share, double step) {
      return static_cast<int>(std::ceil(std::max(0.0, share) / step - 1e-9));
    };
    const Merits& one = merits[plan];
    return {most_crossing > 0 ? count(one.crossing_seconds / most_crossing, 0.1) : 0,
            count(one.memory_share - 0.8, 0.05), one.complications};
  }
  std::string why_not(std::size_t taken, std::size_t other, double tolerance) const {
    const Merits &its = merits[other], &mine = merits[taken];
    if (its.mean > best_mean * (1 + tolerance))
      return fmt::format("{:.1f} % slower in the mean of the cases", 100 * (its.mean / best_mean - 1));
    const auto [crossing, memory, complications] = steps(other);
    const auto [my_crossing, my_memory, my_complications] = steps(taken);
    if (crossing != my_crossing)
      return fmt::format("keeps links between clusters busy for {}, not {}",
                         format_seconds(its.crossing_seconds), format_seconds(mine.crossing_seconds));
    if (memory != my_memory)
      return fmt::format("takes {:.0f} % of a device's memory, not {:.0f} %", 100 * its.memory_share,
                         100 * mine.memory_share);
    return complications != my_complications ? "less simple" : "slower";
  }
};

Comparison compared(const SearchContext& context, std::span<Plan> plans,
                    const std::vector<Disturbance>& cases) {
  Comparison result;
  result.seconds = seconds_by_case(context, plans, cases);
  const topology::LinkTable links(context.view.cluster());
  for (std::size_t i = 0; i < plans.size(); ++i) {
    plans[i].prediction.memory = memory_by_rank(plans[i]);
    Merits& one = result.merits.emplace_back();
    one.crossing_seconds = crossing_seconds(context, links, plans[i]);
    one.memory_share = memory_share(context, plans[i]);
    one.complications = complications(plans[i]);
    for (const auto& in_case : result.seconds) one.mean += in_case[i] / *std::ranges::min_element(in_case);
    one.mean /= static_cast<double>(result.seconds.size());
    result.best_mean = std::min(result.best_mean, one.mean);
    result.most_crossing = std::max(result.most_crossing, one.crossing_seconds);
  }
  return result;
}

/// How many plans are tried in all cases: a simulation takes longer the more ranks there are.
std::size_t most_equal(const SearchContext& context) {
  return std::clamp<std::size_t>(2048 / context.launcher_slots.size(), 3, 8);
}

/// Adds the reasons to the plan's notes. `fastest` is the layout of the fastest plan, where that is another.
void note_choice(const Choice& choice, const std::string& fastest, Plan& plan, int equal) {
  const double percent = 100 * choice.tolerance;
  if (!fastest.empty())
    plan.notes.push_back(fmt::format(
        "not the fastest of {} plans within {:g} %, which is {} in {}: that one {}", equal, percent, fastest,
        format_seconds(choice.next.front().step_seconds), choice.next.front().why_not));
  if (equal == 1)
    plan.notes.push_back(fmt::format("no other kind of plan was found within {:g} % of it", percent));
  else if (choice.cases > 0)
    plan.notes.push_back(fmt::format(
        "with a kind of device or links {:.0f} % slower or faster it stays within {:g} % of the "
        "best of {} plans in {} of {} cases{}",
        100 * kDisturbance, percent, equal, choice.held, choice.cases,
        choice.worst < 0.0005
            ? "; it is the best in each"
            : fmt::format("; at worst {:.1f} % behind ({})", 100 * choice.worst, choice.worst_case)));
}

}  // namespace

Plan chosen(const SearchContext& context, std::vector<Plan> ranked, double tolerance) {
  const double fastest = ranked.front().prediction.step_seconds;
  std::size_t equal = 1;
  while (equal < std::min(ranked.size(), most_equal(context)) &&
         ranked[equal].prediction.step_seconds <= fastest * (1 + tolerance))
    ++equal;
  const std::span<Plan> contenders(ranked.data(), equal);

  std::vector<Disturbance> cases;
  if (context.launcher_slots.size() <= kMostTriedRanks) {
    std::set<int> hosts;
    for (const LauncherSlot& slot : context.launcher_slots) hosts.insert(slot.host);
    cases = disturbances(context.view, {hosts.begin(), hosts.end()}, kDisturbance);
  }
  const Comparison comparison = compared(context, contenders, cases);
  std::size_t taken = equal;
  for (std::size_t i = 0; i < equal; ++i)
    if (comparison.merits[i].mean <= comparison.best_mean * (1 + tolerance) &&
        (taken == equal || comparison.steps(i) < comparison.steps(taken)))
      taken = i;

  Choice choice;
  choice.tolerance = tolerance;
  choice.cases = static_cast<int>(cases.size());
  for (std::size_t number = 1; number < comparison.seconds.size(); ++number) {
    const auto& in_case = comparison.seconds[number];
    const double longer = in_case[taken] / *std::ranges::min_element(in_case) - 1;
    if (longer <= tolerance) ++choice.held;
    if (choice.worst_case.empty() || longer > choice.worst) {
      choice.worst = longer;
      choice.worst_case = cases[number - 1].text;
    }
  }
  constexpr std::size_t kNext = 3;
  for (std::size_t i = 0; i < ranked.size() && choice.next.size() < kNext; ++i)
    if (i != taken)
      choice.next.push_back(
          {words_of(context, ranked[i]), ranked[i].prediction.step_seconds,
           i < equal
               ? comparison.why_not(taken, i, tolerance)
               : fmt::format("{:.1f} % slower", 100 * (ranked[i].prediction.step_seconds / fastest - 1))});
  Plan plan = std::move(contenders[taken]);
  note_choice(choice, taken == 0 ? "" : words_of(context, ranked.front()), plan, static_cast<int>(equal));
  plan.choice = std::move(choice);
  return plan;
}

}  // namespace tombolo::planner
