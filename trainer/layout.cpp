#include "trainer/layout.h"

#include <algorithm>

#include "base/error.h"

namespace tombolo::trainer {
namespace {

// 64 bytes: a cache line and the widest vector.
constexpr std::size_t kAlignment = 16;

constexpr Tensor kLayerTensors[] = {Tensor::kNorm1Weight,
                                    Tensor::kNorm1Bias,
                                    Tensor::kQkvWeight,
                                    Tensor::kQkvBias,
                                    Tensor::kAttentionProjectionWeight,
                                    Tensor::kAttentionProjectionBias,
                                    Tensor::kNorm2Weight,
                                    Tensor::kNorm2Bias,
                                    Tensor::kMlpWeight,
                                    Tensor::kMlpBias,
                                    Tensor::kMlpProjectionWeight,
                                    Tensor::kMlpProjectionBias};

}  // namespace

int Layout::rank_at(int stage, int replica) const {
  for (int rank = 0; rank < ranks(); ++rank) {
    const Place& place = places[static_cast<std::size_t>(rank)];
    if (place.stage == stage && place.replica == replica) return rank;
  }
  fail(Cause::kInternal, "no rank takes stage {} of replica {}", stage, replica);
}

void Layout::check(const Shape& shape) const {
  if (stages.empty() || replicas < 1)
    fail(Cause::kInvalidUsage, "layout: {} stages x {} replicas: both must be at least 1", stages.size(),
         replicas);
  int next = 0;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    if (stages[stage].first_layer != next || stages[stage].layers < 1)
      fail(Cause::kInvalidUsage,
           "layout: stage {} has {} layers from layer {}; expected at least one, from layer {} on", stage,
           stages[stage].layers, stages[stage].first_layer, next);
    next += stages[stage].layers;
  }
  if (next != shape.layers)
    fail(Cause::kInvalidUsage, "layout: the stages hold {} layers, but the model has {}", next, shape.layers);
  std::vector<int> taken(stages.size() * static_cast<std::size_t>(replicas), 0);
  for (int rank = 0; rank < ranks(); ++rank) {
    const Place& place = places[static_cast<std::size_t>(rank)];
    if (place.stage < 0 || place.stage >= pipeline() || place.replica < 0 || place.replica >= replicas)
      fail(Cause::kInvalidUsage, "layout: rank {} takes stage {} of replica {}, but there are {} x {}", rank,
           place.stage, place.replica, pipeline(), replicas);
    if (++taken[static_cast<std::size_t>(place.stage * replicas + place.replica)] > 1)
      fail(Cause::kInvalidUsage, "layout: stage {} of replica {} is taken twice", place.stage, place.replica);
  }
  if (taken.size() != places.size())
    fail(Cause::kInvalidUsage, "layout: {} stages x {} replicas need {} ranks, but {} are given",
         stages.size(), replicas, taken.size(), places.size());
  if (micro_batch < 1 || global_batch < 1 || global_batch % (replicas * micro_batch) != 0)
    fail(Cause::kInvalidUsage,
         "layout: a batch of {} rows does not divide into {} replicas with micro-batches of {} rows",
         global_batch, replicas, micro_batch);
}

Layout even_layout(const Shape& shape, int pipeline, int data, int global_batch, int micro_batch) {
  if (pipeline < 1 || data < 1)
    fail(Cause::kInvalidUsage, "layout: pipeline {} and data {} must be at least 1", pipeline, data);
  if (pipeline > shape.layers)
    fail(Cause::kInvalidUsage, "layout: {} stages cannot share {} layers", pipeline, shape.layers);
  if (global_batch < 1 || global_batch % data != 0)
    fail(Cause::kInvalidUsage, "layout: a batch of {} rows does not divide among {} replicas", global_batch,
         data);
  Layout layout;
  layout.replicas = data;
  layout.global_batch = global_batch;
  const int share = global_batch / data;
  layout.micro_batch = micro_batch;
  if (micro_batch == 0) layout.micro_batch = share % pipeline == 0 ? share / pipeline : share;
  int next = 0;
  for (int stage = 0; stage < pipeline; ++stage) {
    const int layers = shape.layers / pipeline + (stage < shape.layers % pipeline ? 1 : 0);
    layout.stages.push_back({next, layers});
    next += layers;
    for (int replica = 0; replica < data; ++replica) layout.places.push_back({stage, replica});
  }
  layout.check(shape);
  return layout;
}

Layout layout_of(const planner::Plan& plan) {
  if (plan.job.framework != planner::Framework::kTombolo || !plan.uniform())
    fail(Cause::kUnsupported,
         "the plan is for {}{}; the bundled trainer runs plans for framework tombolo whose replicas are all "
         "alike",
         framework_name(plan.job.framework), plan.uniform() ? "" : ", with replicas that differ");
  Layout layout;
  layout.stages = plan.stages();
  layout.replicas = plan.data_size();
  layout.global_batch = plan.job.global_batch;
  layout.micro_batch = plan.job.micro_batch;
  for (const planner::RankPlace& place : plan.ranks) layout.places.push_back({place.stage, place.replica});
  return layout;
}

StageParameters::StageParameters(const Shape& shape, int first_layer, int layers)
    : first_layer_(first_layer),
      layers_(layers),
      first_(first_layer == 0),
      last_(first_layer + layers == shape.layers) {
  auto add = [&](Tensor tensor, int layer) {
    const std::size_t elements = tensor_elements(shape, tensor);
    slices_.push_back({tensor, layer, size_, elements, tensor_position(shape, tensor, std::max(layer, 0))});
    size_ += (elements + kAlignment - 1) / kAlignment * kAlignment;
  };
  if (first_) {
    add(Tensor::kTokenEmbedding, -1);
    add(Tensor::kPositionEmbedding, -1);
  }
  for (int layer = first_layer; layer < first_layer + layers; ++layer)
    for (Tensor tensor : kLayerTensors) add(tensor, layer);
  if (last_) {
    add(Tensor::kFinalNormWeight, -1);
    add(Tensor::kFinalNormBias, -1);
    if (!first_) add(Tensor::kTokenEmbedding, -1);
  }
}

const Slice& StageParameters::find(Tensor tensor, int layer) const {
  for (const Slice& slice : slices_)
    if (slice.tensor == tensor && slice.layer == layer) return slice;
  fail(Cause::kInternal, "this stage holds no {} of layer {}", tensor_info(tensor).name, layer);
}

std::size_t StageParameters::layer_begin(int layer) const {
  return find(Tensor::kNorm1Weight, layer).offset;
}

std::vector<Bucket> gradient_buckets(const StageParameters& parameters, std::size_t smallest_bytes) {
  std::vector<std::size_t> borders;  // descending
  for (int layer = parameters.first_layer() + parameters.layers() - 1; layer >= parameters.first_layer();
       --layer)
    borders.push_back(parameters.layer_begin(layer));
  if (parameters.first()) borders.push_back(0);
  std::vector<Bucket> buckets;
  std::size_t end = parameters.size();
  for (std::size_t index = 0; index < borders.size(); ++index) {
    const bool final_border = index + 1 == borders.size();
    if ((end - borders[index]) * sizeof(float) < smallest_bytes && !final_border) continue;
    buckets.push_back({borders[index], end});
    end = borders[index];
  }
  return buckets;
}

}  // namespace tombolo::trainer
