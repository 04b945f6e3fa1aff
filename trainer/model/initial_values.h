// The values with which a model starts training.
#pragma once

#include <cstdint>
#include <span>

#include "trainer/model/model.h"
#include "trainer/model/stage_parameters.h"

namespace tombolo::trainer {

/// Sets GPT-2's initial values: weights normal(0, 0.02), residual projections normal(0, 0.02 / sqrt(2 L)),
/// biases 0, norms 1. Each value depends only on seed and position, so that every parallel configuration
/// starts alike.
void initialize(const Shape& shape, std::uint64_t seed, const StageParameters& parameters,
                std::span<float> arena);

}  // namespace tombolo::trainer
