#include "trainer/cuda/testing/stage_training.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "trainer/cpu/cpu_stage.h"
#include "trainer/model/initial_values.h"

namespace tombolo::trainer::cuda {

Shape tiny_shape() {
  Shape shape;
  shape.context = 9;
  shape.vocabulary = 29;
  shape.padded_vocabulary = 32;
  shape.layers = 3;
  shape.heads = 3;
  shape.width = 12;
  return shape;
}

std::vector<std::int32_t> random_tokens(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::int32_t> tokens(count);
  for (auto& token : tokens)
    token = static_cast<std::int32_t>(random() % static_cast<unsigned>(tiny_shape().vocabulary));
  return tokens;
}

StageOptions stage_options(int first_layer, int layers) {
  StageOptions options;
  options.shape = tiny_shape();
  options.first_layer = first_layer;
  options.layers = layers;
  options.rows = kBatchRows;
  options.in_flight = kInFlight;
  options.loss_scale = 1.0 / (kMicroBatches * static_cast<double>(kTokens));
  return options;
}

void initialize_widely(StageCompute& stage) {
  std::vector<float> arena(stage.layout().size());
  initialize(tiny_shape(), 5, stage.layout(), arena);
  for (const Slice& slice : stage.layout().slices())
    for (std::size_t at = 0; at < slice.elements; ++at) {
      float& value = arena[slice.offset + at];
      value =
          (tensor_info(slice.tensor).matrix ? 4 * value : value) + 0.02F * static_cast<float>(at % 7) - 0.06F;
    }
  stage.write_state(StageState::kParameters, 0, arena);
}

Training::Training(std::vector<std::unique_ptr<StageCompute>> stages) : stages_(std::move(stages)) {
  for (const auto& stage : stages_) initialize_widely(*stage);
  for (unsigned micro_batch = 0; micro_batch < kMicroBatches; ++micro_batch) {
    tokens_.push_back(random_tokens(kTokens, 10 + micro_batch));
    targets_.push_back(random_tokens(kTokens, 20 + micro_batch));
  }
}

Trained Training::run(int steps) {
  Trained result;
  AdamW optimizer;
  optimizer.learning_rate = 1e-2;
  optimizer.weight_decay = 0.1;
  optimizer.clip = 1;
  // A gradient that is 0 but for rounding (that of the keys' biases) would else move its parameter by a
  // whole learning rate, up or down as the rounding falls.
  optimizer.epsilon = 1e-3;
  for (int step = 0; step < steps; ++step) {
    for (const auto& stage : stages_) stage->clear_gradients();
    passes();
    exchange_gradients(result);
    result.losses.push_back(stages_.back()->take_loss_sum() * stage_options(0, 1).loss_scale);
    double squares = 0;
    for (const auto& stage : stages_) squares += stage->gradient_square_sum();
    result.norms.push_back(std::sqrt(squares));
    for (const auto& stage : stages_) stage->update(adamw_step(optimizer, step, result.norms.back()));
  }
  for (const auto& stage : stages_) {
    result.parameters.emplace_back(stage->layout().size());
    stage->read_state(StageState::kParameters, 0, result.parameters.back());
  }
  return result;
}

/// Forward one micro-batch ahead of backward on all stages but the last.
void Training::passes() {
  forward(0, 0);
  for (int micro_batch = 0; micro_batch < kMicroBatches; ++micro_batch) {
    if (micro_batch + 1 < kMicroBatches) forward(0, micro_batch + 1);
    for (std::size_t stage = 1; stage < stages_.size(); ++stage) forward(stage, micro_batch);
    for (std::size_t stage = stages_.size(); stage-- > 0;) backward(stage, micro_batch);
  }
}

void Training::forward(std::size_t stage, int micro_batch) {
  if (stage > 0)
    std::ranges::copy(stages_[stage - 1]->output(micro_batch), stages_[stage]->input(micro_batch).begin());
  const auto at = static_cast<std::size_t>(micro_batch);
  stages_[stage]->forward(micro_batch, tokens_[at], targets_[at], {});
}

void Training::backward(std::size_t stage, int micro_batch) {
  if (stage + 1 < stages_.size())
    std::ranges::copy(stages_[stage + 1]->boundary_gradient(micro_batch),
                      stages_[stage]->boundary_gradient(micro_batch).begin());
  stages_[stage]->backward(micro_batch, tokens_[static_cast<std::size_t>(micro_batch)], {}, {});
}

/// As the reducer does: all to the host; both copies of the embedding become their sum; and back.
void Training::exchange_gradients(Trained& result) {
  result.gradients.clear();
  std::vector<std::span<float>> values;
  for (const auto& stage : stages_) values.push_back(stage->gradients_to_host({0, stage->layout().size()}));
  if (stages_.size() > 1) {
    const Slice& one = stages_.front()->layout().find(Tensor::kTokenEmbedding);
    const Slice& other = stages_.back()->layout().find(Tensor::kTokenEmbedding);
    for (std::size_t at = 0; at < one.elements; ++at)
      values.front()[one.offset + at] = values.back()[other.offset + at] += values.front()[one.offset + at];
  }
  for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
    result.gradients.emplace_back(values[stage].begin(), values[stage].end());
    stages_[stage]->gradients_from_host({0, stages_[stage]->layout().size()});
  }
}

Training training_of(int stages, const std::function<std::unique_ptr<StageCompute>(StageOptions)>& make) {
  std::vector<std::unique_ptr<StageCompute>> all;
  if (stages == 1) {
    all.push_back(make(stage_options(0, 3)));
  } else if (stages == 2) {
    all.push_back(make(stage_options(0, 1)));
    all.push_back(make(stage_options(1, 2)));
  } else {
    for (int stage = 0; stage < 3; ++stage) all.push_back(make(stage_options(stage, 1)));
  }
  return Training(std::move(all));
}

Training training_of(const Variant& variant) {
  return training_of(variant.stages, [&](StageOptions options) {
    options.precision = variant.precision;
    options.moments = variant.moments;
    options.recompute = variant.recompute;
    return make_cuda_stage(std::make_shared<PretendedDevice>(variant.device), options, variant.cuda);
  });
}

Trained trained(const Variant& variant, int steps) {
  return training_of(variant).run(steps);
}

Trained trained_on_cpu(int stages, int steps) {
  return training_of(stages, [](const StageOptions& options) { return make_cpu_stage(options); }).run(steps);
}

PretendedOptions streams(Eagerness compute, Eagerness to_host, Eagerness from_host) {
  PretendedOptions options;
  options.streams = {compute, to_host, from_host};
  return options;
}

}  // namespace tombolo::trainer::cuda
