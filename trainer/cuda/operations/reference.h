// Every operation in plain C++: what a device must compute, for its tests and for the pretended device.
#pragma once

#include <cstddef>

#include "trainer/cuda/operations/operation.h"

namespace tombolo::trainer::cuda {

/// One number of `values`, and the same stored, rounded to nearest even where the element is bf16.
float load_value(const Values& values, std::size_t index) noexcept;
void store_value(const Values& values, std::size_t index, float value) noexcept;

/// Bytes of AttentionBackward's scratch as run_reference takes it: one float for each of log_sum's entries.
std::size_t reference_attention_scratch(const Attention& attention) noexcept;

/// Carries the operation out on host memory, in the calling thread. Sums are double precision, in the order
/// of their terms; what is stored is rounded once. Parallel sums of a device differ by their rounding alone.
/// Throws kInternal for a token, a target or a range that is out of bounds, and for an accumulation with an
/// epilogue that has none.
void run_reference(const Operation& operation);

}  // namespace tombolo::trainer::cuda
