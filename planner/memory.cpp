#include "planner/memory.h"

#include <algorithm>

#include "planner/schedule.h"

namespace tombolo::planner {

namespace {

std::uint64_t unsigned_of(int value) {
  return static_cast<std::uint64_t>(value);
}

}  // namespace

double layer_activation_bytes(const Model& model) {
  const double s = model.context, h = model.hidden;
  // Values kept: the layer's input, norm 1, qkv (3), attention output, the residual after attention, norm 2,
  // the MLP before and after GELU (4 + 4): 15 S H (the two projections' outputs go straight into the
  // residuals); mean and reciprocal deviation of two norms: 4 S; attention weights: heads S S.
  return (15 * s * h + 4 * s + static_cast<double>(model.heads) * s * s) * model.bytes_per_value;
}

RankMemory rank_memory(const Job& job, int stage, int stages, int layers) {
  const Model& model = job.model;
  const bool first = stage == 0, last = stage == stages - 1;
  const int micro_batches = job.global_batch / job.data / job.micro_batch;
  const std::uint64_t value = unsigned_of(model.bytes_per_value);
  const std::uint64_t rows = unsigned_of(job.micro_batch);
  const std::uint64_t tokens = rows * unsigned_of(model.context);
  const std::uint64_t boundary = tokens * unsigned_of(model.hidden) * value;

  RankMemory memory;
  const std::uint64_t parameters = model.stage_parameters(layers, first, last);
  memory.parameters = memory.gradients = parameters * value;
  memory.optimizer = parameters * (model.bytes_per_value < 4 ? 12 : 8);

  std::uint64_t per_micro_batch =
      unsigned_of(layers) * rows * static_cast<std::uint64_t>(layer_activation_bytes(model));
  per_micro_batch += tokens * 2 * 4;  // token and target indices, 4 bytes each
  if (last) {
    per_micro_batch += 2 * boundary + 2 * tokens * value;  // final norm's input and output, its statistics
    per_micro_batch += tokens * unsigned_of(model.vocabulary) * value;  // logits, turned into their gradient
  }
  memory.activations = per_micro_batch * unsigned_of(micro_batches_in_flight(stage, stages, micro_batches));

  // The backward pass of one layer works in gradients of its widest values: 4 H for the MLP, 3 H for qkv, H
  // for the residual, and one row of attention weights per head.
  memory.buffers = 8 * boundary + rows * unsigned_of(model.heads) * unsigned_of(model.context) *
                                      unsigned_of(model.context) * value;
  memory.buffers += (first ? 0 : 2 * boundary) + (last ? 0 : 2 * boundary);
  memory.total =
      memory.parameters + memory.gradients + memory.optimizer + memory.activations + memory.buffers;
  return memory;
}

}  // namespace tombolo::planner
