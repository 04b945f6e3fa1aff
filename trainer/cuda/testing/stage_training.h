// A small model trained on stages of any kind, in one thread: what tests of the CUDA stage compare.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "trainer/cuda/stage/cuda_stage.h"
#include "trainer/cuda/testing/pretended_device.h"

namespace tombolo::trainer::cuda {

inline constexpr int kBatchRows = 2, kMicroBatches = 4, kInFlight = 2;

/// Three layers, no size of which is a multiple of a tile's.
Shape tiny_shape();

inline constexpr std::size_t kTokens = kBatchRows * 9;

std::vector<std::int32_t> random_tokens(std::size_t count, unsigned seed);

/// Of a stage of tiny_shape() with these layers.
StageOptions stage_options(int first_layer, int layers);

/// Spreads the initial values, so that no gradient is negligible.
void initialize_widely(StageCompute& stage);

/// What training leaves: to be compared.
struct Trained {
  std::vector<double> losses, norms;                      ///< by step
  std::vector<std::vector<float>> gradients, parameters;  ///< by stage, after the last step
  bool operator==(const Trained&) const = default;
};

/// A pipeline of stages in one thread, several micro-batches in flight.
class Training {
 public:
  explicit Training(std::vector<std::unique_ptr<StageCompute>> stages);

  Trained run(int steps);
  /// The passes of one step's micro-batches: run() without all that comes before and after them.
  void passes();

  StageCompute& stage(std::size_t index) { return *stages_[index]; }

 private:
  void forward(std::size_t stage, int micro_batch);
  void backward(std::size_t stage, int micro_batch);
  void exchange_gradients(Trained& result);

  std::vector<std::unique_ptr<StageCompute>> stages_;
  std::vector<std::vector<std::int32_t>> tokens_, targets_;
};

/// How a run on pretended devices differs from another.
struct Variant {
  int stages = 1;
  PretendedOptions device = {};
  CudaStageOptions cuda = {};
  compute::Precision precision = compute::Precision::kFloat32, moments = compute::Precision::kFloat32;
  planner::Recompute recompute = planner::Recompute::kNone;
};

/// The stages of a whole model, each made by `make`.
Training training_of(int stages, const std::function<std::unique_ptr<StageCompute>(StageOptions)>& make);
Training training_of(const Variant& variant);
Trained trained(const Variant& variant, int steps = 10);
Trained trained_on_cpu(int stages, int steps = 10);

PretendedOptions streams(Eagerness compute, Eagerness to_host, Eagerness from_host);

}  // namespace tombolo::trainer::cuda
