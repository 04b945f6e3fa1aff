#include "planner/launch/framework_arguments.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace tombolo::planner {

FrameworkStart framework_start(const Plan& plan, const topology::ClusterFile& cluster) {
  constexpr Numbering kByStage = Numbering::kStagesOutermost;
  switch (plan.job.framework) {
    case Framework::kMegatron:
      return {kByStage, megatron_arguments(plan, cluster, kByStage)};
    case Framework::kNeMo:
      return {kByStage, nemo_arguments(plan, cluster, kByStage, nodes_by_host(numbered(plan, kByStage)))};
    case Framework::kTorchTitan:
      return {kByStage, torchtitan_arguments(plan, cluster)};
    case Framework::kDeepSpeed:
      return {kByStage, {{}, {"DeepSpeed's configuration: in the script of tombolo plan --emit deepspeed."}}};
    case Framework::kTombolo:
    case Framework::kAny:
      break;
  }
  return {};
}

std::string_view networks_argument(Framework framework) noexcept {
  switch (framework) {
    case Framework::kMegatron:
      return "--nccl-communicator-config-path ";
    case Framework::kNeMo:
      return "trainer.strategy.nccl_communicator_config_path=";
    case Framework::kTorchTitan:
    case Framework::kDeepSpeed:
    case Framework::kTombolo:
    case Framework::kAny:
      break;
  }
  return {};
}

std::string peculiarity_words(const Peculiarities& peculiarities, const Peculiarities& except) {
  std::string words;
  for (const PeculiarityTraits& one : all_peculiarities())
    if (peculiarities.has(one.peculiarity) && !except.has(one.peculiarity))
      words.append(words.empty() ? "" : "; ").append(one.text);
  return words;
}

std::string model_details(const Model& model) {
  std::vector<std::string> details;
  if (model.rotary_scaling > 0)
    details.push_back(fmt::format("rotary positions scaled by {}", model.rotary_scaling));
  if (model.rotary_share != 1)
    details.push_back(fmt::format("rotary positions of {} of each head", model.rotary_share));
  if (model.rotary_pairs) details.emplace_back("rotary positions that turn neighbours");
  if (model.alibi) details.emplace_back("ALiBi positions");
  if (model.gelu_gate) details.emplace_back("a gate through GELU");
  if (model.qkv_biases) details.emplace_back("biases of queries, keys and values");
  if (model.query_key_norms) details.emplace_back("norms of queries and keys");
  if (model.router != Router{}) details.emplace_back("a router as the plan file says");
  if (model.windowed()) details.push_back(fmt::format("attention to the last {} tokens alone", model.window));
  Peculiarities hidden;
  for (const PeculiarityTraits& one : all_peculiarities())
    hidden.set(one.peculiarity, model.has(one.peculiarity) && !model.shows(one.peculiarity));
  if (std::string words = peculiarity_words(model.peculiarities, hidden); !words.empty())
    details.push_back(std::move(words));
  return fmt::format("{}", fmt::join(details, "; "));
}

std::string numbering_text(const Plan& plan, const FrameworkStart& start) {
  if (start.numbering == Numbering::kPlan) return "Rank r of the job is rank r of the plan.";
  return fmt::format("Ranks are numbered by stage, then replica, as {} does.",
                     traits(plan.job.framework).title);
}

std::string_view example_of(const Plan& plan) {
  switch (plan.job.framework) {
    case Framework::kMegatron:
      return "python pretrain_gpt.py --data-path ...";
    case Framework::kNeMo:
      return "nemo llm pretrain --factory llama3_8b -y ...";
    case Framework::kTorchTitan:
      return "python -m torchtitan.train --job.config_file ...";
    case Framework::kDeepSpeed:
      return "python train.py ...";
    case Framework::kTombolo:
    case Framework::kAny:
      break;
  }
  return "tombolo train --plan plan.json ..., or any program that takes its rank from RANK";
}

std::string following_words(const FrameworkArguments& arguments) {
  std::string text;
  for (const std::string& line : arguments.lines) text += " \\\n  " + line;
  return text;
}

std::string remarks_text(const FrameworkArguments& arguments) {
  std::string text = arguments.remarks.empty() ? "" : "\n";
  for (const std::string& remark : arguments.remarks) text += "# " + remark + '\n';
  return text;
}

int even_layers(const Plan& plan) {
  const int layers = plan.stages().front().layers;
  return std::ranges::all_of(plan.stages(), [&](const Stage& stage) { return stage.layers == layers; })
             ? layers
             : 0;
}

}  // namespace tombolo::planner
