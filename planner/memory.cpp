#include "planner/memory.h"

#include "planner/schedule.h"

namespace tombolo::planner {

namespace {

/// Sizes of a micro-batch's tensors, in values.
struct Sizes {
  Sizes(const Model& model, int micro_batch_rows)
      : rows(static_cast<std::uint64_t>(micro_batch_rows)),
        tokens(rows * static_cast<std::uint64_t>(model.context)),
        boundary(tokens * static_cast<std::uint64_t>(model.hidden)),
        logits(tokens * static_cast<std::uint64_t>(model.vocabulary)),
        heads(static_cast<std::uint64_t>(model.heads)),
        square(static_cast<std::uint64_t>(model.context) * static_cast<std::uint64_t>(model.context)) {}
  std::uint64_t rows, tokens, boundary, logits, heads, square;
};

/// Values that one layer keeps: norm 1, qkv (3), attention's output, the residual after it, norm 2, the MLP
/// before and after GELU (4 each) and the output, 16 boundaries in all; mean and reciprocal deviation of both
/// norms; the attention weights.
std::uint64_t layer_values(const Sizes& sizes) {
  return 16 * sizes.boundary + 4 * sizes.tokens + sizes.rows * sizes.heads * sizes.square;
}

}  // namespace

std::uint64_t layer_activation_bytes(const Model& model, int rows) {
  return layer_values(Sizes(model, rows)) * static_cast<std::uint64_t>(model.bytes_per_value);
}

RankMemory rank_memory(const Job& job, int stage, int stages, int layers) {
  const Model& model = job.model;
  const Sizes sizes(model, job.micro_batch);
  const bool first = stage == 0, last = stage == stages - 1;
  const int micro_batches = job.global_batch / job.data / job.micro_batch;
  const auto value = static_cast<std::uint64_t>(model.bytes_per_value);

  RankMemory memory;
  const std::uint64_t parameters = model.stage_parameters(layers, first, last);
  memory.parameters = memory.gradients = parameters * value;
  memory.optimizer = parameters * (model.bytes_per_value < 4 ? 12 : 8);

  std::uint64_t kept = sizes.boundary + static_cast<std::uint64_t>(layers) * layer_values(sizes);
  if (last) kept += sizes.boundary + 2 * sizes.tokens + sizes.logits;
  memory.activations =
      kept * value * static_cast<std::uint64_t>(micro_batches_in_flight(stage, stages, micro_batches));

  // The backward pass of a layer works in 5 boundaries (4 for the MLP's width, 1 for its own) and at most one
  // head's matrix of attention weights.
  const std::uint64_t scratch = 5 * sizes.boundary + sizes.square;
  memory.buffers = (scratch + 3 * sizes.boundary + sizes.boundary) * value;
  memory.total =
      memory.parameters + memory.gradients + memory.optimizer + memory.activations + memory.buffers;
  return memory;
}

}  // namespace tombolo::planner
