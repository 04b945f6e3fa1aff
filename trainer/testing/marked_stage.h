// Stages whose state says where it belongs, so that a test sees which checkpoint it came from, and whether
// each element is in its place.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/cpu/cpu_stage.h"

namespace tombolo::trainer::test {

inline Shape marked_shape() {
  Shape shape;
  shape.context = 5;
  shape.vocabulary = 11;
  shape.padded_vocabulary = 13;
  shape.layers = 4;
  shape.heads = 2;
  shape.width = 6;
  return shape;
}

inline std::unique_ptr<StageCompute> marked_stage(const Shape& shape, int first_layer, int layers) {
  StageOptions options;
  options.shape = shape;
  options.first_layer = first_layer;
  options.layers = layers;
  return make_cpu_stage(options);
}

/// Different for every state, element and step; exact.
inline float mark(StageState state, std::size_t position, std::int64_t step) {
  return static_cast<float>(position * 3 + static_cast<std::size_t>(state)) +
         static_cast<float>(step * 20000);
}

inline void set_marks(StageCompute& stage, std::int64_t step) {
  for (const StageState state : kStageStates)
    for (const Slice& slice : stage.layout().slices()) {
      std::vector<float> values(slice.elements);
      for (std::size_t at = 0; at < values.size(); ++at) values[at] = mark(state, slice.position + at, step);
      stage.write_state(state, slice.offset, values);
    }
}

/// The number of elements that are not as set_marks() leaves them, copies of tensors included.
inline std::size_t wrong_marks(const StageCompute& stage, std::int64_t step) {
  std::size_t wrong = 0;
  for (const StageState state : kStageStates)
    for (const Slice& slice : stage.layout().slices()) {
      std::vector<float> values(slice.elements);
      stage.read_state(state, slice.offset, values);
      for (std::size_t at = 0; at < values.size(); ++at)
        wrong += values[at] != mark(state, slice.position + at, step) ? 1 : 0;
    }
  return wrong;
}

}  // namespace tombolo::trainer::test
