// Which libnccl a job would load: that of the PyTorch of the first python3 in PATH, or the loader's.
#pragma once

#include <string>

#include "tools/doctor/nccl_rules.h"

namespace tombolo::doctor {

struct FoundNccl {
  std::string path;                       ///< of the libnccl.so.2; empty where none was found
  NcclRelease release = kUnknownRelease;  ///< what the library says of itself
  std::string by;        ///< "PyTorch 2.9.0 of /usr/bin/python3", "the loader"; who would load it
  std::string why_none;  ///< what was looked at, where none was found
};

/// Runs the first python3 of PATH, which need not have PyTorch, and the loader on PyTorch's libraries;
/// imports nothing. A PyTorch for GPUs takes the NCCL that the loader finds for its libtorch_cuda.so, whose
/// wheels name the folder of NCCL's; or that of a wheel elsewhere in sys.path where PyTorch has to look for
/// CUDA's wheels itself. Where that does not load, neither does PyTorch, so that no other counts.
FoundNccl find_nccl();

}  // namespace tombolo::doctor
