#include "planner/explain/remedies.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/units.h"
#include "planner/model/index.h"

namespace tombolo::planner {

namespace {

/// A change of the job and of the ranks that is tried, to see whether a layout fits then.
struct Remedy {
  bool layout = false, recompute = false, shard = false;
  int copies = 1;  // of every rank
};

/// The sharding of the job's framework that divides most.
Sharding most_sharding(const Job& job) {
  return std::ranges::max(traits(job.framework).shardings);
}

/// The first layout that fits with the change; nothing where none does.
std::optional<Job> fitting(const SearchContext& context, const GridRule& rule, Job job,
                           const Remedy& remedy) {
  PlanOptions options = context.options;
  if (remedy.layout) {
    job.pipeline = job.data = job.micro_batch = 0;
    if (traits(job.framework).tensor_parallel) job.tensor = 0;
  }
  options.savings = savings_of(context.options, job);
  for (Saving& saving : options.savings) {
    if (remedy.recompute) saving.recompute = Recompute::kFull;
    if (remedy.shard) saving.sharding = most_sharding(job);
  }
  std::vector<LauncherSlot> slots;
  for (const LauncherSlot& slot : context.launcher_slots) slots.insert(slots.end(), at(remedy.copies), slot);
  const SearchContext changed{context.view, context.kinds_view, slots, options};
  for (const Candidate& candidate : enumerate(changed, job, rule).all)
    if (candidate.missing_bytes == 0) return candidate.plan.job;
  return std::nullopt;
}

std::string remedy_text(const SearchContext& context, const Remedy& remedy, const Job& job) {
  std::vector<std::string> words;
  if (remedy.recompute) words.push_back("full recomputation (--recompute full)");
  if (remedy.shard)
    words.push_back(most_sharding(job) == Sharding::kOptimizer
                        ? "a sharded optimizer (--shard-optimizer)"
                        : fmt::format("sharded {0} (--sharding {0})", sharding_name(most_sharding(job))));
  std::string text;
  if (remedy.copies > 1)
    text = fmt::format("on {} ranks of the same kind", at(remedy.copies) * context.launcher_slots.size());
  if (!words.empty()) text += fmt::format("{}with {}", text.empty() ? "" : " ", fmt::join(words, " and "));
  return fmt::format("{}{}{}", text, text.empty() ? "with " : " as ", layout_text(job));
}

/// The most layers with which this layout would fit, or 0.
int most_layers(const SearchContext& context, const GridRule& rule, const Candidate& candidate) {
  for (int layers = candidate.plan.job.model.layers - 1; layers >= candidate.plan.job.pipeline; --layers) {
    Job smaller = candidate.plan.job;
    smaller.model.layers = layers;
    if (fitting(context, rule, smaller, {})) return layers;
  }
  return 0;
}

std::vector<std::string> remedies(const SearchContext& context, const GridRule& rule, const Job& job,
                                  const Candidate& closest) {
  std::vector<std::string> found;
  const auto helps = [&](const Remedy& remedy) {
    const auto layout = fitting(context, rule, job, remedy);
    if (layout) found.push_back(remedy_text(context, remedy, *layout));
    return layout.has_value();
  };
  if (helps({.layout = true})) return found;
  const std::vector<Saving> tried = savings_of(context.options, job);
  const bool may_recompute =
      std::ranges::none_of(tried, [](const Saving& one) { return one.recompute == Recompute::kFull; });
  const bool may_shard =
      std::ranges::none_of(tried, [&](const Saving& one) { return one.sharding == most_sharding(job); });
  // Each is tried by itself, so that the message can name both.
  const bool recomputed = may_recompute && helps({.layout = true, .recompute = true});
  const bool sharded = may_shard && helps({.layout = true, .shard = true});
  if (!recomputed && !sharded && may_recompute && may_shard)
    helps({.layout = true, .recompute = true, .shard = true});
  // A rank holds at least one layer and one row, so more ranks than that do not help.
  for (int copies = 2; copies <= 64 && at(copies) * context.launcher_slots.size() <= 4096; copies *= 2)
    if (helps({.layout = true, .copies = copies})) break;
  if (const int layers = most_layers(context, rule, closest); layers > 0)
    found.push_back(fmt::format("with at most {} layers in all", layers));
  if (found.empty()) found.push_back("with a smaller width, context or vocabulary");
  return found;
}

}  // namespace

std::string layout_text(const Job& job) {
  std::string text = fmt::format("pipeline {}, data {}", job.pipeline, job.data);
  if (job.tensor > 1) text += fmt::format(", tensor {}", job.tensor);
  if (job.context_parallel > 1) text += fmt::format(", {} of them for each row", job.context_parallel);
  if (job.expert_parallel > 1)
    text += fmt::format(", {} of them for each layer's experts", job.expert_parallel);
  if (job.schedule != Schedule::kOneForwardOneBackward)
    text += fmt::format(", schedule {}", schedule_name(job.schedule));
  if (job.chunks > 1) text += fmt::format(" of {} chunks", job.chunks);
  if (job.recompute != Recompute::kNone)
    text += job.recompute_layers > 0
                ? fmt::format(", recomputing {} of each chunk", counted(job.recompute_layers, "layer"))
                : fmt::format(", recomputing {}", recompute_name(job.recompute));
  if (job.sharded()) text += fmt::format(", sharded {}", sharding_name(job.sharding));
  return text + ", micro-batches of " + counted(job.micro_batch, "row");
}

void fail_nothing_fits(const SearchContext& context, const Job& job, const GridRule& rule,
                       const std::vector<Candidate>& candidates) {
  const Candidate& closest = *std::ranges::min_element(candidates, {}, &Candidate::missing_bytes);
  const Plan& plan = closest.plan;
  const RankPlacement& place = plan.ranks[at(closest.missing_rank)];
  const RankMemory& memory = plan.prediction.memory[at(closest.missing_rank)];
  std::vector<std::string> all = remedies(context, rule, job, closest);
  all.push_back(fmt::format("with {} there", format_size(memory.total)));
  fail(Cause::kInvalidUsage,
       "{}. The closest ({}) lacks {} on "
       "rank {} (host {}, device {}, stage {}), which needs {}: parameters {}, gradients {}, optimizer {}, "
       "activations {}, buffers {}. It would fit {}",
       kNothingFits, layout_text(plan.job), format_size(closest.missing_bytes), closest.missing_rank,
       place.host, place.device, place.stage, format_size(memory.total), format_size(memory.parameters),
       format_size(memory.gradients), format_size(memory.optimizer), format_size(memory.activations),
       format_size(memory.buffers), fmt::join(all, ", or "));
}

}  // namespace tombolo::planner
