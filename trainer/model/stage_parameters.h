// The layout of a stage's parameters in its arena, one contiguous allocation for all tensors of the stage.
#pragma once

#include <cstddef>
#include <vector>

#include "trainer/model/model.h"

namespace tombolo::trainer {

/// One tensor (of one layer) inside a stage's arena.
struct Slice {
  Tensor tensor;
  int layer;           ///< of the model; -1 where the tensor is not per layer
  std::size_t offset;  ///< in the arena, in floats; a multiple of 16
  std::size_t elements;
  std::size_t position;  ///< in a checkpoint's order
};

/// A stage's parameters, in the order in which the forward pass uses them, so that the backward pass finishes
/// gradients from the end of the arena to its beginning. With more than one stage, the last holds a copy of
/// the token embedding as its output projection, at the very end.
class StageParameters {
 public:
  StageParameters(const Shape& shape, int first_layer, int layers);

  const std::vector<Slice>& slices() const noexcept { return slices_; }
  /// Size of the arena in floats, padding included.
  std::size_t size() const noexcept { return size_; }
  bool first() const noexcept { return first_; }
  bool last() const noexcept { return last_; }
  int first_layer() const noexcept { return first_layer_; }
  int layers() const noexcept { return layers_; }
  /// Throws kInternal where this stage has no such tensor.
  const Slice& find(Tensor tensor, int layer = -1) const;
  /// The arena offset at which the parameters of a layer (numbered in the model) begin.
  std::size_t layer_begin(int layer) const;
  /// Whether the embedding is both here and at the other end of the pipeline.
  bool shares_embedding() const noexcept { return first_ != last_; }
  /// Whether it is the copy, which must be neither counted in norms nor saved.
  bool is_copy(const Slice& slice) const noexcept {
    return slice.tensor == Tensor::kTokenEmbedding && !first_;
  }

 private:
  std::vector<Slice> slices_;
  std::size_t size_ = 0;
  int first_layer_, layers_;
  bool first_, last_;
};

/// A range [begin, end) of a stage's arena that is reduced in one piece.
struct Bucket {
  std::size_t begin = 0, end = 0;
  bool operator==(const Bucket&) const = default;
};

/// Cuts the arena at the borders of layers, beginning at its end; neighbours are merged until a bucket holds
/// at least `smallest_bytes`. The buckets are in the order in which the backward pass completes them, and
/// cover the arena.
std::vector<Bucket> gradient_buckets(const StageParameters& parameters, std::size_t smallest_bytes);

}  // namespace tombolo::trainer
