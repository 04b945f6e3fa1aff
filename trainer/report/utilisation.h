// Model FLOPs utilisation: how much of what the devices could do the training step's arithmetic is.
#pragma once

#include "trainer/model/model.h"

namespace tombolo::trainer {

/// Floating-point operations that training takes per token, forward and backward: 6 N + 6 L C T, with N all
/// parameters, L layers, C width and T context. The first term counts every parameter's multiplication and
/// addition once in forward and twice in backward; the second the products of causal attention, of which half
/// are computed. This is llm.c's formula; activations that are recomputed do not count.
double training_flops_per_token(const Shape& shape) noexcept;

/// The part of `peak` (FLOP/s, of all devices together) that `tokens_per_second` use; 0 where peak is 0, that
/// is, unknown.
double utilisation(const Shape& shape, double tokens_per_second, double peak) noexcept;

}  // namespace tombolo::trainer
