#include "planner/cost/cuda_memory.h"

#include <algorithm>
#include <initializer_list>

namespace tombolo::planner {

namespace {

using CudaBytes = std::uint64_t;

// The trainer's constants, which this room must not include.
constexpr CudaBytes kPieceAlignment = 256;
constexpr CudaBytes kTensorAlignment = 16;  // values
constexpr CudaBytes kPaddedVocabularyMultiple = 128;
constexpr CudaBytes kFloat = 4, kDouble = 8;
constexpr CudaBytes kTensorConstants = 24, kStepConstants = 48;
constexpr CudaBytes kScoreBytes = CudaBytes{256} << 20;
constexpr CudaBytes kWorkspace = CudaBytes{32} << 20;
constexpr CudaBytes kFullTile = 128;  // tokens
constexpr CudaBytes kSumScratch = 1024, kNormParts = 256;
constexpr CudaBytes kStatePiece = CudaBytes{1} << 20;
constexpr int kGradientBuffers = 3;

constexpr CudaBytes rounded_up(CudaBytes count, CudaBytes multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

constexpr CudaBytes cuda_piece(CudaBytes bytes) {
  return rounded_up(bytes, kPieceAlignment);
}

CudaBytes as_bytes(int value) {
  return static_cast<CudaBytes>(value);
}

struct CudaSizes {
  CudaSizes(const Model& model, int rows)
      : value(as_bytes(model.bytes_per_value)),
        tokens(as_bytes(rows) * as_bytes(model.context)),
        context(as_bytes(model.context)),
        heads(as_bytes(model.heads)),
        width(as_bytes(model.hidden)),
        vocabulary(rounded_up(as_bytes(model.vocabulary), kPaddedVocabularyMultiple)),
        narrow(cuda_piece(tokens * width * value)),
        statistic(cuda_piece(tokens * kFloat)) {}
  CudaBytes value, tokens, context, heads, width, vocabulary;
  CudaBytes narrow;     ///< bytes of N x W values
  CudaBytes statistic;  ///< bytes of N floats

  CudaBytes multiple(CudaBytes of_width) const { return cuda_piece(of_width * tokens * width * value); }
};

/// The parameters of a stage with their padding, and how many tensors they are.
struct CudaParameters {
  CudaParameters(const CudaSizes& sizes, const CudaStage& stage) {
    const CudaBytes width = sizes.width;
    if (stage.first) add({sizes.vocabulary * width, sizes.context * width});
    add({width, width, 3 * width * width, 3 * width, width * width, width, width, width, 4 * width * width,
         4 * width, 4 * width * width, width},
        as_bytes(stage.layers));
    if (stage.last) add({width, width});
    if (stage.last && !stage.first) add({sizes.vocabulary * width});
  }
  void add(std::initializer_list<CudaBytes> sizes, CudaBytes times = 1) {
    for (const CudaBytes size : sizes) values += times * rounded_up(size, kTensorAlignment);
    tensors += times * sizes.size();
  }
  CudaBytes values = 0, tensors = 0;
};

/// What a layer keeps beside its output.
CudaBytes inside_of_layer(const CudaSizes& sizes) {
  return 4 * sizes.narrow + sizes.multiple(3) + 2 * sizes.multiple(4) + 4 * sizes.statistic +
         cuda_piece(sizes.tokens * sizes.heads * kFloat);
}

CudaBytes score_bytes(const CudaSizes& sizes) {
  const CudaBytes fitting = kScoreBytes / (sizes.vocabulary * sizes.value);
  const CudaBytes chunk =
      fitting >= kFullTile ? fitting / kFullTile * kFullTile : std::max<CudaBytes>(fitting, 1);
  return cuda_piece(std::min(chunk, sizes.tokens) * sizes.vocabulary * sizes.value);
}

CudaBytes micro_batch_bytes(const Job& job, const CudaSizes& sizes, const CudaStage& stage) {
  CudaBytes bytes = sizes.narrow + as_bytes(stage.layers) * cuda_layer_bytes(job, stage.rows);
  if (stage.first || stage.last) bytes += cuda_piece((4 * sizes.tokens + 1) * kFloat);
  if (stage.last) bytes += 3 * sizes.statistic + sizes.narrow;
  return bytes;
}

CudaBytes buffer_bytes(const Job& job, const CudaSizes& sizes, const CudaStage& stage, CudaBytes parameters) {
  CudaBytes bytes = 2 * cuda_piece(kDouble);  // the loss, and the sum of squares
  bytes += cuda_piece(kWorkspace);
  if (job.moment_bytes == 2) bytes += cuda_piece((std::min(parameters, kStatePiece) + 16) * kFloat);
  if (job.recompute == Recompute::kFull) bytes += inside_of_layer(sizes);
  const int gradients = stage.first && stage.last ? 1 : std::min(stage.in_flight, kGradientBuffers);
  bytes += as_bytes(gradients) * sizes.narrow;
  bytes += sizes.multiple(4) + 2 * sizes.narrow;
  bytes += cuda_piece(kSumScratch * kDouble) + cuda_piece(4 * sizes.width * kFloat) +
           cuda_piece(2 * kNormParts * sizes.width * kFloat);
  bytes += cuda_piece(sizes.tokens * sizes.heads * kFloat);  // attention
  if (stage.last)
    bytes += score_bytes(sizes) + cuda_piece(sizes.vocabulary * kFloat) + cuda_piece(2 * kFloat);
  return bytes;
}

}  // namespace

std::uint64_t cuda_layer_bytes(const Job& job, int rows) {
  const CudaSizes sizes(job.model, rows);
  return sizes.narrow + (job.recompute == Recompute::kFull ? 0 : inside_of_layer(sizes));
}

RankMemory cuda_stage_memory(const Job& job, const CudaStage& stage) {
  const CudaSizes sizes(job.model, stage.rows);
  const CudaParameters parameters(sizes, stage);
  RankMemory memory;
  memory.parameters = cuda_piece(parameters.values * kFloat);
  if (job.model.bytes_per_value < 4) memory.parameters += cuda_piece(parameters.values * sizes.value);
  memory.gradients = cuda_piece(parameters.values * kFloat);
  memory.optimizer = 2 * cuda_piece(parameters.values * as_bytes(job.moment_bytes)) +
                     cuda_piece(parameters.tensors * kTensorConstants) + cuda_piece(kStepConstants);
  memory.activations = as_bytes(stage.in_flight) * micro_batch_bytes(job, sizes, stage);
  memory.buffers = buffer_bytes(job, sizes, stage, parameters.values);
  if (job.profile) memory.buffers += job.profile->overhead_bytes;
  memory.total =
      memory.parameters + memory.gradients + memory.optimizer + memory.activations + memory.buffers;
  return memory;
}

}  // namespace tombolo::planner
