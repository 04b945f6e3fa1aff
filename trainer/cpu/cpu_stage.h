// trainer/cpu/ owns the CPU back end: the computation of one pipeline stage in fp32, with kernels for every
// instruction set that a machine may have.
#pragma once

#include <memory>
#include <span>

#include "trainer/model/stage_compute.h"

namespace tombolo::trainer {

/// A stage on the CPU: its arenas are memory that the caller may read and write between passes.
class CpuStage : public StageCompute {
 public:
  virtual std::span<float> parameters() noexcept = 0;
  virtual std::span<float> gradients() noexcept = 0;
};

/// Throws kInvalidUsage for shapes out of range, kUnsupported for a precision that this processor or the CPU
/// back end lacks, kSystem when memory does not suffice (naming how much).
std::unique_ptr<CpuStage> make_cpu_stage(const StageOptions& options);

/// The CPU's back end.
StageFactory cpu_stages();

}  // namespace tombolo::trainer
