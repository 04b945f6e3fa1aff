#include "planner/plan/inexpressible.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_set>

namespace tombolo::planner {

namespace {

template <typename Range, typename Value>
bool contains(const Range& range, const Value& value) {
  return std::find(range.begin(), range.end(), value) != range.end();
}

bool nodes_differ(const Plan& plan) {
  std::map<std::string_view, int> ranks;
  for (const RankPlacement& rank : plan.ranks) ++ranks[rank.host];
  return std::any_of(ranks.begin(), ranks.end(),
                     [&](const auto& one) { return one.second != ranks.begin()->second; });
}

/// Whether all stages between the first and the last have equally many layers, and those two no more.
bool uneven_at_ends_alone(const Plan& plan) {
  for (const Pipeline& pipeline : plan.pipelines) {
    const auto& stages = pipeline.stages;
    const int most = std::ranges::max_element(stages, {}, &Stage::layers)->layers;
    for (std::size_t stage = 1; stage + 1 < stages.size(); ++stage)
      if (stages[stage].layers != most) return false;
  }
  return true;
}

/// Whether the ranks of every host are in a row when all are numbered by `order`, a function of a rank.
template <typename Order>
bool hosts_in_rows(const Plan& plan, const Order& order) {
  std::vector<const RankPlacement*> ranks;
  ranks.reserve(plan.ranks.size());
  for (const RankPlacement& rank : plan.ranks) ranks.push_back(&rank);
  std::ranges::sort(ranks, {}, [&](const RankPlacement* rank) { return order(*rank); });
  std::unordered_set<std::string_view> begun;
  const RankPlacement* last = nullptr;
  for (const RankPlacement* rank : ranks) {
    if ((last == nullptr || last->host != rank->host) && !begun.insert(rank->host).second) return false;
    last = rank;
  }
  return true;
}

bool orderly(const Plan& plan, RankOrder order) {
  const auto by_stage = [](const RankPlacement& rank) {
    return std::tuple(rank.stage, rank.replica, rank.tensor);
  };
  const auto by_replica = [](const RankPlacement& rank) {
    return std::tuple(rank.replica, rank.stage, rank.tensor);
  };
  return order == RankOrder::kAny || hosts_in_rows(plan, by_stage) ||
         (order == RankOrder::kEitherOutermost && hosts_in_rows(plan, by_replica));
}

}  // namespace

std::vector<std::string> inexpressible(const Job& job, Framework framework) {
  const FrameworkTraits& can = traits(framework);
  std::vector<std::string> sentences;
  const auto lacks = [&](std::string_view what) {
    sentences.push_back(fmt::format("{} has no {}", can.title, what));
  };
  if (!contains(can.schedules, job.schedule)) lacks(fmt::format("{} schedule", schedule_name(job.schedule)));
  if (!contains(can.recomputations, job.recompute))
    lacks(fmt::format("{} recomputation", recompute_name(job.recompute)));
  if (can.second_pass_for_weights && splits_backward(job.schedule) && job.recompute != Recompute::kNone)
    lacks(
        fmt::format("recomputation with schedule {}, whose second pass for weights would compute again, too",
                    schedule_name(job.schedule)));
  if (!can.some_layers_again && job.recompute == Recompute::kFull && job.recompute_layers > 0)
    lacks("full recomputation of some layers of a stage alone");
  if (!contains(can.shardings, job.sharding) && job.data != 1)
    lacks(fmt::format("sharding of {}{}", sharding_name(job.sharding),
                      job.sharding == Sharding::kOptimizer ? " alone" : ""));
  else if (job.pipeline > 1 && !contains(can.staged_shardings, job.sharding) && job.data != 1)
    lacks(fmt::format("sharding of {} with several stages", sharding_name(job.sharding)));
  if (const Precision precision = job.multiplies_in();
      is_fp8(precision) && !contains(can.fp8_formats, precision))
    lacks(fmt::format("products in {}", precision_name(precision)));
  if (!can.fp16 && job.multiplies_in() == Precision::kFp16)
    lacks("fp16, which stands for bf16 on GPUs that have none");
  if (!cuts_into_stages(framework, job.model) && job.pipeline > 1)
    lacks(fmt::format("stages of {} (--pipeline 1)", job.model.name.empty() ? "this model" : job.model.name));
  if (can.tensor_divides_sequence && job.tensor > 1 && !job.sequence_parallel)
    lacks("tensor parallelism without sequence parallelism");
  if (!can.tensor_parallel && job.tensor > 1) lacks("tensor parallelism");
  if (!can.sequence_parallel && job.sequence_parallel) lacks("sequence parallelism");
  if (!can.context_parallel && job.context_parallel > 1) lacks("context parallelism");
  if (can.context_parallel && !can.context_all_to_all && job.context_parallel > 1 &&
      job.context_exchange == ContextExchange::kAllToAll)
    lacks("context parallelism by all-to-all");
  if (!can.latent_attention && job.model.latent())
    lacks("latent attention, at least not by its recipe's overrides");
  if (job.model.windowed() && framework == Framework::kNeMo && job.context_parallel > 1 &&
      job.context_exchange == ContextExchange::kRing)
    lacks("context parallelism by a ring with attention's windows");
  if (!can.expert_parallel && job.expert_parallel > 1) lacks("expert parallelism");
  if (can.experts_divide_sequence && job.model.experts > 0 && job.tensor > 1 && !job.sequence_parallel)
    lacks("mixtures of experts whose layers several ranks share without dividing the sequence");
  if (can.experts_among_shards && job.expert_parallel > job.context_parallel &&
      job.sharding < Sharding::kGradients)
    lacks("expert parallelism among replicas that do not share gradients");
  if (can.experts_divide_sequence && job.expert_parallel > 1 && job.multiplies_in() == Precision::kFp16)
    lacks("expert parallelism in fp16");
  if (!can.unfused_attention && !job.fused_attention) lacks("argument that leaves attention unfused");
  if (!can.tensor_overlap && job.overlap_tensor) lacks("tensor-parallel exchanges beside products");
  if (can.tensor_overlap_divides && job.overlap_tensor && job.tensor > 1 && !job.sequence_parallel)
    lacks("tensor-parallel exchanges beside products without sequence parallelism");
  if (can.tensor_overlap_compiles && job.overlap_tensor && splits_backward(job.schedule))
    lacks(fmt::format("tensor-parallel exchanges beside products with schedule {}, which cannot be compiled",
                      schedule_name(job.schedule)));
  if (!can.parameter_gather_overlap && job.overlap_parameters)
    lacks("gathering of parameters beside the forward pass");
  return sentences;
}

std::string unsaid(const Model& model, Framework framework) {
  const FrameworkTraits& can = traits(framework);
  std::vector<std::string> texts;
  std::string fields;
  const auto lacks = [&](std::string text, std::string_view field) {
    texts.push_back(std::move(text));
    fields.append(fmt::format(",{}=no", field));
  };
  if (model.alibi && !can.alibi) lacks("ALiBi positions", "alibi");
  if (model.gelu_gate && !can.gelu_gate) lacks("a gate through GELU", "gelu_gate");
  if (model.windowed() && !can.window)
    lacks(fmt::format("attention to the last {} tokens alone", model.window), "window");
  for (const PeculiarityTraits& one : all_peculiarities())
    if (model.shows(one.peculiarity) && !can.peculiarities.has(one.peculiarity))
      lacks(std::string(one.text), one.name);
  if (texts.empty()) return {};
  return fmt::format(
      "{} has no argument for {}; a step is timed without, and a script is written for --model ...{}",
      can.title, fmt::join(texts, ", "), fields);
}

std::vector<std::string> inexpressible(const Plan& plan, Framework framework) {
  const FrameworkTraits& can = traits(framework);
  std::vector<std::string> sentences;
  const auto lacks = [&](std::string_view what) {
    sentences.push_back(fmt::format("{} has no {}", can.title, what));
  };
  const auto alike = [&](auto same) {
    for (const Pipeline& pipeline : plan.pipelines)
      for (const Stage& stage : pipeline.stages)
        if (!same(stage, plan.pipelines.front().stages.front())) return false;
    return true;
  };
  if (std::any_of(plan.pipelines.begin(), plan.pipelines.end(),
                  [&](const auto& one) { return one != plan.pipelines.front(); })) {
    if (!can.uneven_replicas)
      lacks("replicas that differ in stages or rows");
    else if (plan.job.sharding > Sharding::kOptimizer)
      lacks(fmt::format("sharding of {} among replicas that differ in stages or rows",
                        sharding_name(plan.job.sharding)));
  }
  if (!can.tensor_degree_per_stage &&
      !alike([](const Stage& a, const Stage& b) { return a.tensor == b.tensor; }))
    lacks("stages that are shared by different numbers of ranks");
  if (!can.uneven_layers && !alike([](const Stage& a, const Stage& b) { return a.layers == b.layers; }))
    lacks("stages with different numbers of layers");
  else if (can.uneven_at_ends_alone && !uneven_at_ends_alone(plan))
    lacks("stages between the first and the last with different numbers of layers, or with fewer than these");
  const auto cannot_start = [&](std::string_view what) {
    sentences.push_back(fmt::format("{} cannot start {}", can.title, what));
  };
  if (!can.unequal_nodes && nodes_differ(plan)) cannot_start("nodes with different numbers of ranks");
  // Replicas outermost, experts' groups would have ranks of other stages between theirs.
  const RankOrder order = can.rank_order == RankOrder::kEitherOutermost && plan.job.expert_parallel > 1 &&
                                  plan.pipeline_size() > 1
                              ? RankOrder::kStagesOutermost
                              : can.rank_order;
  if (!orderly(plan, order))
    cannot_start(order == RankOrder::kEitherOutermost
                     ? "nodes whose ranks are in a row neither by stage nor by replica"
                     : "nodes whose ranks are not in a row by stage");
  Job job = plan.job;
  job.data = plan.data_size();
  job.pipeline = plan.pipeline_size();
  for (std::string& sentence : inexpressible(job, framework)) sentences.push_back(std::move(sentence));
  return sentences;
}

}  // namespace tombolo::planner
