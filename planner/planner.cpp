#include "planner/planner.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>

#include "base/error.h"
#include "base/units.h"
#include "planner/device_choices.h"
#include "planner/explain/choose.h"
#include "planner/explain/left_out.h"
#include "planner/explain/remedies.h"
#include "planner/model/index.h"
#include "planner/plan/inexpressible.h"
#include "planner/search/search.h"
#include "planner/simulate/simulator.h"
#include "planner/strategies/strategy.h"

namespace tombolo::planner {

namespace {

void check_job(const Job& job, const PlanOptions& options, const Strategy& strategy) {
  job.model.check();
  if (job.global_batch <= 0)
    fail(Cause::kInvalidUsage, "the batch is {} rows per step, expected a whole number > 0",
         job.global_batch);
  for (const auto& [name, value] :
       {std::pair("micro-batch", job.micro_batch), std::pair("pipeline", job.pipeline),
        std::pair("data", job.data), std::pair("tensor", job.tensor)})
    if (value < 0) fail(Cause::kInvalidUsage, "{} is {}, expected > 0, or 0 to have it chosen", name, value);
  const auto check = [&](Job one) {
    one.tensor = std::max(1, job.tensor);
    one.expert_parallel = one.expert_parts();
    // Where the degree is open, both apply to degrees greater than 1, with which one needs the other.
    const bool overlaps_alone = job.tensor == 0 && one.overlap_tensor && !one.sequence_parallel;
    one.sequence_parallel &= job.tensor != 0;
    one.check();
    if (overlaps_alone) one.tensor = 2;
    if (const auto lacks = inexpressible(one, job.framework); !lacks.empty())
      fail(Cause::kUnsupported, "{}; plan without, or for another framework", fmt::join(lacks, "; "));
  };
  // One of the ways to save memory, with one of the schedules, has to go with what is fixed.
  const auto savings = options.savings.empty() ? std::vector{job.saving()} : options.savings;
  const auto schedules =
      options.schedules.empty() ? std::vector{std::pair(job.schedule, job.chunks)} : options.schedules;
  bool possible = false;
  std::optional<Error> why;
  for (auto saving = savings.begin(); saving != savings.end() && !possible; ++saving)
    for (auto schedule = schedules.begin(); schedule != schedules.end() && !possible; ++schedule) {
      Job one = job;
      one.set(*saving);
      one.expert_parallel = job.expert_parallel;
      std::tie(one.schedule, one.chunks) = *schedule;
      try {
        check(std::move(one));
        possible = true;
      } catch (const Error& error) {
        if (!why) why = error;
      }
    }
  if (!possible) throw Error(*why);
  if (!(options.alpha > 0) || options.alpha > 10)
    fail(Cause::kInvalidUsage, "alpha is {}, expected a number above 0, about 1", options.alpha);
  if (!(options.tolerance >= 0) || options.tolerance >= 1)
    fail(Cause::kInvalidUsage, "tolerance is {}, expected a share of the fastest step from 0 to below 1",
         options.tolerance);
  if (options.may_leave_out && !strategy.capabilities.leaves_devices_out)
    fail(Cause::kInvalidUsage, "strategy {} gives every rank a place; to leave some out, take {}",
         strategy.name, alternatives(strategy_names({&StrategyCapabilities::leaves_devices_out})));
}

}  // namespace

std::vector<int> expert_degrees(const Job& job, std::size_t replicas) {
  if (job.expert_parallel > 0) return {job.expert_parallel};
  if (job.model.experts == 0 || !traits(job.framework).expert_parallel || job.profile ||
      job.recompute_layers > 0)
    return {1};
  std::vector<int> degrees;
  for (int degree = 1; degree <= job.model.experts && at(degree) <= replicas; ++degree)
    if (job.model.experts % degree == 0 && replicas % at(degree) == 0) degrees.push_back(degree);
  return degrees;
}

std::vector<Saving> savings_of(const PlanOptions& options, const Job& job, std::size_t replicas) {
  std::vector<Saving> savings;
  const std::vector<int> degrees = expert_degrees(job, replicas);
  for (Saving saving : options.savings.empty() ? std::vector{job.saving()} : options.savings) {
    if (replicas < 2) saving.sharding = Sharding::kNone;
    for (const int degree : degrees) {
      saving.expert_parallel = degree;
      if (std::ranges::find(savings, saving) == savings.end()) savings.push_back(saving);
    }
  }
  return savings;
}

namespace {

std::size_t cluster_devices(const topology::ClusterFile& cluster) {
  std::size_t devices = 0;
  for (const topology::Host& host : cluster.hosts) devices += host.devices.size();
  return devices;
}

/// Notes the devices that the framework cannot start beside the others.
void note_unstarted(const ClusterView& view, const std::vector<LauncherSlot>& all,
                    const std::vector<LauncherSlot>& started, Plan& plan) {
  std::set<std::pair<int, int>> taken;
  for (const LauncherSlot& slot : started) taken.insert({slot.host, slot.device});
  std::map<int, int> of_host;
  for (const LauncherSlot& slot : all) {
    if (taken.contains({slot.host, slot.device})) continue;
    plan.left_out.push_back({view.host(slot.host).name, slot.device});
    ++of_host[slot.host];
  }
  if (of_host.empty()) return;
  std::vector<std::string> hosts;
  for (const auto& [host, count] : of_host)
    hosts.push_back(fmt::format("{} of {}", count, view.host(host).name));
  constexpr std::size_t kNamed = 4;
  const std::size_t more = hosts.size() > kNamed ? hosts.size() - kNamed : 0;
  hosts.resize(hosts.size() - more);
  plan.notes.push_back(fmt::format(
      "left out: {}{}, for {} starts equally many ranks on every node", fmt::join(hosts, ", "),
      more > 0 ? fmt::format(" and those of {} more hosts", more) : "", traits(plan.job.framework).title));
}

/// The slots that a plan uses.
std::vector<LauncherSlot> slots_of(const ClusterView& view, const Plan& plan) {
  std::vector<LauncherSlot> slots;
  for (const RankPlacement& place : plan.ranks) slots.push_back({view.host_index(place.host), place.device});
  return slots;
}

/// Where `plan`, which might have used more devices than `best`, leaves the same ones idle, it knows by what
/// they would hold a step up: takes its reasons over, and returns true.
bool take_reasons_for_idle(const ClusterView& view, const Plan& plan, Plan& best) {
  const auto used = [&](const Plan& one) {
    std::set<std::pair<int, int>> devices;
    for (const LauncherSlot& slot : slots_of(view, one)) devices.insert({slot.host, slot.device});
    return devices;
  };
  if (used(plan) != used(best)) return false;
  const auto is_reason = [](const std::string& note) { return note.starts_with("left out: "); };
  std::erase_if(best.notes, is_reason);
  std::ranges::copy_if(plan.notes, std::back_inserter(best.notes), is_reason);
  best.left_out = plan.left_out;
  return true;
}

/// Whether a plan is to be preferred to one on fewer devices. To one in bf16, which needs no scaling of the
/// loss, one in fp16 that counts as equally fast is not.
bool is_better(const Plan& plan, const Plan& best, double tolerance) {
  const bool needs_scaling =
      plan.job.multiplies_in() == Precision::kFp16 && best.job.multiplies_in() != Precision::kFp16;
  const double margin = needs_scaling ? 1 + tolerance : 1;
  return plan.prediction.step_seconds * margin < best.prediction.step_seconds;
}

/// The plan that was chosen, with the notes that hold for it: all of the strategy's fastest plan where it is
/// that one.
Plan taken_for(const SearchContext& context, const Strategy& strategy, const Plan& fastest, Plan plan) {
  plan.strategy = strategy.name;
  const bool same =
      plan.prediction.step_seconds == fastest.prediction.step_seconds && plan.pipelines == fastest.pipelines;
  std::vector<std::string> notes;
  if (same) notes = fastest.notes;
  // what each strategy found
  if (!same && strategy.capabilities.asks_others) notes.push_back(fastest.notes.front());
  for (std::string& note : plan.notes)
    if (std::ranges::find(notes, note) == notes.end()) notes.push_back(std::move(note));
  plan.notes = std::move(notes);
  note_conditions(context, plan);
  return plan;
}

Plan plan_among(const topology::ClusterFile& cluster, const ClusterView& all,
                const std::vector<LauncherSlot>& slots, const Job& job, const PlanOptions& options,
                const Strategy& strategy) {
  std::vector<std::string> hosts;
  for (const LauncherSlot& slot : slots) {
    const std::string& name = all.host(slot.host).name;
    if (std::find(hosts.begin(), hosts.end(), name) == hosts.end()) hosts.push_back(name);
  }
  const ClusterView view(cluster, options.routing, hosts);
  Contenders contenders(options.tolerance);
  StepTimes times;
  SearchContext context{view, all, slots, options};
  context.times = &times;
  if (options.tolerance > 0) context.contenders = &contenders;
  Plan plan = plan_by(strategy, context, job).value();
  if (options.tolerance > 0) {
    contenders.offer(plan, view);
    plan = taken_for(context, strategy, plan, chosen(context, contenders.ranked(), options.tolerance));
  }
  if (!plan.left_out.empty()) {
    for (std::string& sentence : why_left_out(context, plan)) plan.notes.push_back(std::move(sentence));
    // The hosts that still take part may all share a better kind of NIC.
    if (options.routing == "shared")
      plan.prediction.step_seconds = simulate(plan, cluster, {.spans = false}).step_seconds;
  }
  plan.groups = groups_of(plan, view);
  return plan;
}

/// The plan in which as few replicas divide rows' tokens as any fits with, and twice as many as long as whole
/// layers are computed again and a step gets shorter. Throws what a plan of whole rows lacks.
Plan with_open_parts(const topology::ClusterFile& cluster, const Job& wanted, const PlanOptions& options,
                     const Strategy& strategy) {
  const std::size_t most =
      traits(wanted.framework).context_parallel && !wanted.profile && wanted.fused_attention
          ? cluster_devices(cluster)
          : 1;
  std::optional<Plan> best;
  std::optional<Error> whole;
  Job job = wanted;
  for (job.context_parallel = 1; at(job.context_parallel) <= std::max<std::size_t>(1, most);
       job.context_parallel *= 2) {
    if (!job.context_misfit(std::max(1, job.tensor)).empty()) break;
    try {
      Plan plan = make_plan(cluster, job, options, strategy);
      const double seconds = plan.prediction.step_seconds;
      if (best && seconds >= best->prediction.step_seconds) break;
      if (best)
        plan.notes.push_back(fmt::format(
            "{} replicas divide each row's tokens: with {} a step would take {}, for layers would be "
            "computed again as a whole",
            job.context_parallel, best->job.context_parallel, format_seconds(best->prediction.step_seconds)));
      else if (whole)
        plan.notes.push_back(fmt::format("{} in which fewer than {} replicas divide a row's tokens",
                                         kNothingFits, job.context_parallel));
      best = std::move(plan);
      if (best->job.recompute != Recompute::kFull) break;
    } catch (const Error& error) {
      if (!whole && !best && std::string_view(error.what()).find(kNothingFits) == std::string_view::npos)
        throw;
      if (best) break;
      if (!whole) whole = error;
    }
  }
  if (!best) throw Error(*whole);
  return std::move(*best);
}

}  // namespace

Plan make_plan(const topology::ClusterFile& cluster, const Job& job, const PlanOptions& wanted,
               const Strategy& strategy) {
  if (job.context_parallel == 0) return with_open_parts(cluster, job, wanted, strategy);
  check_job(job, wanted, strategy);
  PlanOptions options = wanted;
  const FrameworkTraits& can = traits(job.framework);
  options.uneven_replicas &= can.uneven_replicas && can.tensor_degree_per_stage &&
                             job.context_parallel == 1 &&
                             expert_degrees(job, cluster_devices(cluster)) == std::vector{1};
  const ClusterView all(cluster, "per-peer", {});
  const std::vector<LauncherSlot> slots = launcher_slots(all, options.rank_hosts);
  const std::vector<SlotChoice> choices = slot_choices(all, slots, job, options);
  std::optional<Plan> best;
  std::optional<Error> why;
  std::vector<ChoiceTime> times;  // of plans with one set of choices or another
  const SlotChoice* taken = nullptr;
  Job taken_job;
  for (const SlotChoice& choice : choices) {
    for (const std::vector<LauncherSlot>& some : startable_slots(choice.slots, can)) {
      try {
        const Job decided = decided_for(all, some, job, options);
        if (has_other_choices(decided, job)) check_job(decided, wanted, strategy);
        Plan plan = plan_among(cluster, all, some, decided, options, strategy);
        // What it leaves idle may be all for which the job was decided so; then a choice before had the rest.
        if (best && has_other_choices(decided_for(all, slots_of(all, plan), job, options), decided)) {
          if (take_reasons_for_idle(all, plan, *best)) taken = &choice;
          continue;
        }
        times.push_back({decided, plan.ranks.size(), plan.prediction.step_seconds});
        if (best && !is_better(plan, *best, options.tolerance)) continue;
        note_unstarted(all, choice.slots, some, plan);
        best = std::move(plan);
        taken = &choice;
        taken_job = decided;
      } catch (const Error& error) {
        why = error;  // the last is of the most devices per node
      }
    }
  }
  if (!best) throw Error(*why);
  note_devices(all, slots, *taken, taken_job, times, *best);
  if (std::string text = unsaid(job.model, job.framework); !text.empty())
    best->notes.push_back(std::move(text));
  best->prediction.reductions = simulate(*best, cluster, {.spans = false}).reductions;
  best->prediction.tokens_per_second =
      static_cast<double>(job.global_batch) * job.model.context / best->prediction.step_seconds;
  return std::move(*best);
}

Plan make_plan(const topology::ClusterFile& cluster, const Job& job, const PlanOptions& options) {
  return make_plan(cluster, job, options, strategy_named(options.strategy));
}

}  // namespace tombolo::planner
