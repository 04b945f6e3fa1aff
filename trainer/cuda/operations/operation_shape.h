// An operation's shape in words, for errors.
#pragma once

#include <string>

#include "trainer/cuda/operations/operation.h"

namespace tombolo::trainer::cuda {

/// "bf16, 8192 x 768 x 3072, b transposed"; operation_name() says of what.
std::string operation_shape(const Operation& operation);

}  // namespace tombolo::trainer::cuda
