#include "trainer/run/layer_times.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "base/median.h"
#include "trainer/model/initial_values.h"

namespace tombolo::trainer {
namespace {

constexpr int kTimedInFlight = 2;
constexpr int kMicroBatchesPerStep = 4;

/// The seconds of every part in every pass, and of every step's update.
struct Samples {
  std::vector<double> layer_forward, layer_backward, embedding_forward, embedding_backward, head_forward,
      head_backward, update;
};

/// The median, but not below 0: the difference of two times may be negative.
double median_above_zero(const std::vector<double>& values) {
  return std::max(0.0, median(values));
}

StageOptions timed_stage(const LayerTimesOptions& options) {
  StageOptions stage;
  stage.shape = options.shape;
  stage.shape.layers = kTimedLayers;
  stage.layers = kTimedLayers;
  stage.rows = options.rows;
  stage.in_flight = kTimedInFlight;
  stage.loss_scale = 1.0 / (static_cast<double>(options.rows) * kMicroBatchesPerStep * options.shape.context);
  stage.threads = options.threads;
  stage.precision = options.precision;
  stage.moments = options.moments;
  stage.recompute = options.recompute;
  stage.exchanges_gradients = false;
  stage.wait_per_layer = true;
  return stage;
}

/// A whole model that trains on random tokens, and reads the clock between its layers.
class TimedModel {
 public:
  TimedModel(StageCompute& stage, const LayerTimesOptions& options, const Clock& clock)
      : stage_(stage), clock_(clock) {
    std::vector<float> arena(stage_.layout().size());
    initialize(timed_stage(options).shape, 1, stage_.layout(), arena);
    stage_.write_state(StageState::kParameters, 0, arena);
    std::mt19937 random(1);
    tokens_.resize(static_cast<std::size_t>(options.rows) * static_cast<std::size_t>(options.shape.context));
    for (auto& token : tokens_)
      token = static_cast<std::int32_t>(random() % static_cast<unsigned>(options.shape.vocabulary));
  }

  /// Runs a step; false where the deadline cut it short.
  bool step(Samples& samples, const std::optional<Deadline>& deadline) {
    // This is the 1F1B order of the first of two stages, in which two micro-batches are in flight.
    forward(0, samples);
    for (int micro_batch = 0; micro_batch < kMicroBatchesPerStep; ++micro_batch) {
      if (deadline && deadline->passed()) return false;
      if (micro_batch + 1 < kMicroBatchesPerStep) forward(micro_batch + 1, samples);
      backward(micro_batch, samples);
    }
    const TimePoint begin = clock_.now();
    const double norm = stage_.gradient_square_sum();
    stage_.update(adamw_step({}, steps_++, norm));
    stage_.clear_gradients();
    samples.update.push_back(to_seconds(clock_.now() - begin));
    return true;
  }

 private:
  /// The five times at which a pass begins, leaves each of its three layers, and ends.
  template <typename Pass>
  std::vector<double> intervals(const Pass& pass) {
    std::vector<TimePoint> times{clock_.now()};
    pass([&] { times.push_back(clock_.now()); });
    times.push_back(clock_.now());
    std::vector<double> seconds;
    for (std::size_t i = 1; i < times.size(); ++i) seconds.push_back(to_seconds(times[i] - times[i - 1]));
    return seconds;
  }

  void forward(int micro_batch, Samples& samples) {
    const auto [first, second, third, head] = four(intervals(
        [&](const Progress& progress) { stage_.forward(micro_batch, tokens_, tokens_, progress); }));
    samples.layer_forward.insert(samples.layer_forward.end(), {second, third});
    samples.embedding_forward.push_back(first - (second + third) / 2);
    samples.head_forward.push_back(head);
  }

  void backward(int micro_batch, Samples& samples) {
    const auto [last, second, first, embedding] = four(
        intervals([&](const Progress& progress) { stage_.backward(micro_batch, tokens_, progress, {}); }));
    samples.layer_backward.insert(samples.layer_backward.end(), {second, first});
    samples.head_backward.push_back(last - (second + first) / 2);
    samples.embedding_backward.push_back(embedding);
  }

  static std::array<double, 4> four(const std::vector<double>& seconds) {
    return {seconds.at(0), seconds.at(1), seconds.at(2), seconds.at(3)};
  }

  StageCompute& stage_;
  const Clock& clock_;
  std::vector<std::int32_t> tokens_;
  std::int64_t steps_ = 0;
};

/// Bytes of activations of one micro-batch on a stage of `layers` layers, its input included.
std::size_t activation_bytes(const StageFactory& make_stage, StageOptions options, int layers, bool last) {
  options.shape.layers = layers + 1 + (last ? 0 : 1);
  options.first_layer = 1;
  options.layers = layers;
  options.in_flight = 1;
  options.training = false;
  return make_stage(options)->memory().activations;
}

/// Divides the update's time among the parts by their number of parameters, because the update is limited by
/// memory, through which parameters, gradients and moments pass once.
void share_update(double seconds, const StageParameters& layout, LayerTimes& times) {
  double layer = 0, embedding = 0, norm = 0, token_embedding = 0;
  for (const Slice& slice : layout.slices()) {
    const auto elements = static_cast<double>(slice.elements);
    if (slice.layer == 0) layer += elements;
    if (slice.tensor == Tensor::kTokenEmbedding) token_embedding += elements;
    if (slice.tensor == Tensor::kTokenEmbedding || slice.tensor == Tensor::kPositionEmbedding)
      embedding += elements;
    if (slice.tensor == Tensor::kFinalNormWeight || slice.tensor == Tensor::kFinalNormBias) norm += elements;
  }
  const double each = seconds / (kTimedLayers * layer + embedding + norm);
  times.layer.update = each * layer;
  times.embedding.update = each * embedding;
  times.head.update = each * (norm + token_embedding);
}

}  // namespace

LayerTimes time_stage(StageCompute& stage, const LayerTimesOptions& options, const Clock& clock) {
  TimedModel model(stage, options, clock);
  Samples samples;
  model.step(samples, std::nullopt);  // warms up pages and caches
  samples = {};
  if (options.ready) options.ready();
  const Deadline deadline = Deadline::after(options.budget, clock);
  model.step(samples, std::nullopt);
  while (!deadline.passed() && model.step(samples, deadline)) {
  }
  LayerTimes times;
  times.layer.forward = median(samples.layer_forward);
  times.layer.backward = median(samples.layer_backward);
  times.embedding.forward = median_above_zero(samples.embedding_forward);
  times.embedding.backward = median(samples.embedding_backward);
  times.head.forward = median(samples.head_forward);
  times.head.backward = median_above_zero(samples.head_backward);
  share_update(median(samples.update), stage.layout(), times);
  return times;
}

LayerTimes time_layers(const LayerTimesOptions& options) {
  const StageOptions stage = timed_stage(options);
  const std::size_t one = activation_bytes(options.make_stage, stage, 1, false);
  const std::size_t layer = activation_bytes(options.make_stage, stage, 2, false) - one,
                    head = activation_bytes(options.make_stage, stage, 1, true) - one;
  LayerTimes times = time_stage(*options.make_stage(stage), options, Clock::steady());
  times.layer.kept_bytes = layer;
  times.head.kept_bytes = head;
  return times;
}

}  // namespace tombolo::trainer
