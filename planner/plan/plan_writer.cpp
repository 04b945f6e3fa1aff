// Writes the plan file, which docs/plan-file.md describes for people.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "planner/model/model_json.h"
#include "planner/plan/plan.h"

namespace tombolo::planner {

namespace {

Json job_to_json(const Job& job) {
  Json json = {{"global_batch", job.global_batch},
               {"micro_batch", job.micro_batch},
               {"pipeline", job.pipeline},
               {"data", job.data}};
  if (job.tensor != 1) json["tensor"] = job.tensor;
  if (job.schedule != Schedule::kOneForwardOneBackward) json["schedule"] = schedule_name(job.schedule);
  if (job.chunks != 1) json["chunks"] = job.chunks;
  if (job.recompute != Recompute::kNone) json["recompute"] = recompute_name(job.recompute);
  if (job.recompute_layers > 0) json["recompute_layers"] = job.recompute_layers;
  if (job.sequence_parallel) json["sequence_parallel"] = true;
  if (job.sharded()) json["sharding"] = sharding_name(job.sharding);
  if (job.context_parallel != 1) {
    json["context_parallel"] = job.context_parallel;
    json["context_exchange"] = context_exchange_name(job.context_exchange);
  }
  if (job.expert_parallel != 1) json["expert_parallel"] = job.expert_parallel;
  if (job.precision) json["precision"] = precision_name(*job.precision);
  if (!job.fused_attention) json["fused_attention"] = false;
  if (job.overlap_tensor) json["overlap_tensor"] = true;
  if (job.overlap_parameters) json["overlap_parameters"] = true;
  if (!job.overlap_gradients) json["overlap_gradients"] = false;
  if (job.blocks_sends()) json["sends"] = stage_sends_name(job.sends);
  if (!job.fp32_gradients) json["fp32_gradients"] = false;
  if (job.framework != Framework::kTombolo) json["framework"] = framework_name(job.framework);
  if (!job.software.empty()) json["software"] = job.software;
  if (job.device != TrainerDevice::kCpu) json["device"] = trainer_device_name(job.device);
  if (job.moment_bytes == 2) json["moments"] = "bf16";
  return json;
}

Json stages_to_json(const std::vector<Stage>& stages, const Job& job) {
  Json json = Json::array();
  for (const Stage& stage : stages) {
    Json& item = json.emplace_back(Json{{"first_layer", stage.first_layer}, {"layers", stage.layers}});
    if (stage.tensor != job.tensor) item["tensor"] = stage.tensor;
  }
  return json;
}

Json choice_to_json(const Choice& choice) {
  Json json = {{"tolerance", choice.tolerance}};
  if (choice.cases > 0) {
    json["cases"] = choice.cases;
    json["held"] = choice.held;
    json["worst"] = choice.worst;
    json["worst_case"] = choice.worst_case;
  }
  json["next"] = Json::array();
  for (const Choice::Rival& rival : choice.next)
    json["next"].push_back(
        {{"layout", rival.layout}, {"step_seconds", rival.step_seconds}, {"why_not", rival.why_not}});
  return json;
}

Json reductions_to_json(const std::vector<ExpectedReduction>& reductions) {
  Json json = Json::array();
  for (const ExpectedReduction& one : reductions) {
    Json& item = json.emplace_back(Json{{"ranks", one.ranks},
                                        {"algorithm", one.algorithm},
                                        {"calls", one.calls},
                                        {"bytes", one.bytes},
                                        {"seconds", one.seconds},
                                        {"why", one.why}});
    if (one.piece_bytes > 0) item["piece_bytes"] = one.piece_bytes;
  }
  return json;
}

}  // namespace

Json Plan::to_json() const {
  Json json;
  json["tombolo_plan"] = kVersion;
  json["strategy"] = strategy;
  json["routing"] = routing;
  json["model"] = planner::to_json(job.model);
  json["job"] = job_to_json(job);
  const bool alike =
      std::ranges::all_of(pipelines, [&](const Pipeline& one) { return one == pipelines.front(); });
  if (alike && !pipelines.empty()) {
    json["stages"] = stages_to_json(pipelines.front().stages, job);
  } else {
    json["pipelines"] = Json::array();
    for (const Pipeline& one : pipelines)
      json["pipelines"].push_back({{"stages", stages_to_json(one.stages, job)},
                                   {"rows", one.rows},
                                   {"micro_batch", one.micro_batch}});
  }
  json["ranks"] = Json::array();
  for (const RankPlacement& place : ranks) {
    Json& item = json["ranks"].emplace_back(Json{
        {"host", place.host}, {"device", place.device}, {"stage", place.stage}, {"replica", place.replica}});
    if (stage(place.stage, place.replica).tensor > 1) item["tensor"] = place.tensor;
  }
  for (const IdleDevice& idle : left_out)
    json["left_out"].push_back({{"host", idle.host}, {"device", idle.device}});
  json["groups"] = Json::array();
  for (const Group& group : groups)
    json["groups"].push_back({{"kind", group.kind},
                              {"ranks", group.ranks},
                              {"nic_kind", topology::nic_kind_name(group.nic_kind)}});
  Json memory = Json::array();
  for (const RankMemory& rank : prediction.memory)
    memory.push_back({{"parameters", rank.parameters},
                      {"gradients", rank.gradients},
                      {"optimizer", rank.optimizer},
                      {"activations", rank.activations},
                      {"buffers", rank.buffers},
                      {"total", rank.total}});
  json["prediction"] = {{"step_seconds", prediction.step_seconds},
                        {"tokens_per_second", prediction.tokens_per_second},
                        {"bubble_fraction", prediction.bubble_fraction}};
  if (!prediction.memory.empty()) json["prediction"]["memory"] = std::move(memory);
  if (!prediction.reductions.empty())
    json["prediction"]["reductions"] = reductions_to_json(prediction.reductions);
  if (choice) json["choice"] = choice_to_json(*choice);
  json["notes"] = notes;
  return json;
}

void Plan::save(const std::string& path) const {
  write_json_file(path, to_json());
}

}  // namespace tombolo::planner
