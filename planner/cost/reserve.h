// The memory of a GPU that no plan may use.
#pragma once

#include "planner/model/job.h"
#include "topology/device.h"

namespace tombolo::planner {

/// What tensors do not hold of a GPU's memory: the context of CUDA, its libraries, NCCL's buffers, and the
/// fragments between what the allocator gives out. `Job::reserve_bytes` where it is given, else 0 where a
/// profile states an overhead, or else 1 GiB and 0.039 of the device's memory. The two constants are chosen:
/// a context with its libraries takes about the first on every GPU; with it the second makes up the 4.52 GiB
/// by which nvidia-smi's peak was beyond the tensors in Sailor's run of OPT-350M on one node of GH200 of 96
/// GB. 0 for a CPU, whose memory the system moves about.
double reserved_memory(const Job& job, const topology::Device& device) noexcept;

/// The bytes of a device that a plan may use; 0 = unknown, at least 1 where it is known.
double usable_memory(const Job& job, const topology::Device& device) noexcept;

}  // namespace tombolo::planner
