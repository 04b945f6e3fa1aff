#include "planner/cost/slot_parameters.h"

#include <algorithm>

#include "planner/model/index.h"

namespace tombolo::planner {

std::uint64_t slot_parameters(const Plan& plan, int replica, int slot) {
  const Job& job = plan.job;
  const int slots = plan.pipeline_size(replica), tensor = plan.stage(slot, replica).tensor;
  const bool first = slot == 0, last = slot == slots - 1;
  // The projection is counted on the last chunk. Where it shares the rank with the embedding, both are in one
  // stage.
  std::uint64_t parameters = job.model.end_parameters(false, last, tensor);
  if (first && last && job.model.tied_embeddings) parameters -= job.model.token_embedding_parameters(tensor);
  if (first) parameters += job.embedding_parameters(tensor);
  for (int chunk = 0; chunk < job.chunks; ++chunk) {
    const Stage& stage = plan.stages(replica)[at(chunk * slots + slot)];
    parameters += job.layer_parameters(stage.first_layer, stage.layers, tensor);
  }
  return parameters;
}

std::uint64_t slot_expert_parameters(const Plan& plan, int replica, int slot) {
  const Job& job = plan.job;
  const int slots = plan.pipeline_size(replica), tensor = plan.stage(slot, replica).tensor;
  std::uint64_t parameters = 0;
  for (int chunk = 0; job.expert_parts() > 1 && chunk < job.chunks; ++chunk) {
    const Stage& stage = plan.stages(replica)[at(chunk * slots + slot)];
    parameters += job.expert_parameters(stage.first_layer, stage.layers, tensor);
  }
  return parameters;
}

std::uint64_t slot_matrix_parameters(const Plan& plan, int replica, int slot, LayersHeld held) {
  const Model& model = plan.job.model;
  const int tensor = plan.stage(slot, replica).tensor, layers = plan.layers_at(slot, replica);
  int mixtures = 0;
  for (int chunk = 0; chunk < plan.job.chunks; ++chunk) {
    const Stage& stage = plan.stages(replica)[at(chunk * plan.pipeline_size(replica) + slot)];
    mixtures += model.mixtures(stage.first_layer, stage.layers);
  }
  const std::uint64_t dense = model.matrix_parameters(tensor);
  const std::uint64_t mixture =
      mixtures > 0 ? model.matrix_parameters(tensor, Mlp::kMixture, plan.job.expert_parts()) : 0;
  if (held == LayersHeld::kTwo)
    return at(std::min(2, layers)) * (mixtures < layers ? std::max(dense, mixture) : mixture);
  return at(layers - mixtures) * dense + at(mixtures) * mixture;
}

std::uint64_t two_layers_parameters(const Plan& plan, int replica, int slot) {
  const Job& job = plan.job;
  const int tensor = plan.stage(slot, replica).tensor;
  std::uint64_t layer = 0;
  for (int chunk = 0; chunk < job.chunks; ++chunk) {
    const Stage& stage = plan.stages(replica)[at(chunk * plan.pipeline_size(replica) + slot)];
    for (int index = stage.first_layer; index < stage.first_layer + stage.layers; ++index) {
      layer = std::max(layer, job.layer_parameters(index, 1, tensor));
      if (!job.profile && !job.model.mixed()) break;  // all are alike
    }
  }
  std::uint64_t next = layer;
  if (slot == 0) next = std::max(next, job.embedding_parameters(tensor));
  if (slot + 1 == plan.pipeline_size(replica))
    next = std::max(next, job.model.end_parameters(false, true, tensor));
  return std::min(layer + next, slot_parameters(plan, replica, slot));
}

}  // namespace tombolo::planner
