// trainer/cpu/ owns the CPU back end: the computation of one pipeline stage in fp32, with kernels for every
// instruction set that a machine may have.
#pragma once

#include <memory>

#include "trainer/model/stage_compute.h"

namespace tombolo::trainer {

/// Makes a stage. Throws kInvalidUsage for shapes out of range, and kSystem when memory does not suffice
/// (naming how much).
std::unique_ptr<StageCompute> make_cpu_stage(const StageOptions& options);

}  // namespace tombolo::trainer
