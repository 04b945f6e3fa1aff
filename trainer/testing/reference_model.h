// The bundled model's loss in double precision, written for reading and not for speed: the truth that back
// ends are compared with.
#pragma once

#include <cstdint>
#include <span>

#include "trainer/model/model.h"

namespace tombolo::trainer::test {

/// Mean loss (natural logarithm) of `tokens` against `targets`, each rows x context. `parameters`: all of the
/// model's, in a checkpoint's order.
double reference_loss(const Shape& shape, std::span<const double> parameters,
                      std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets);

}  // namespace tombolo::trainer::test
