// What a test can tell the fake NCCL, and ask it.
#pragma once

#include <string>

#include "trainer/cuda/group/nccl_library.h"

namespace tombolo::trainer::cuda {

struct FakeNccl {
  int looks = 0;  ///< how often a call that takes time is in progress; below 0: for ever
  NcclResult init = NcclResult::kInProgress;  ///< what joining answers at once
  NcclResult state = NcclResult::kSuccess;    ///< what is found in the end
  const char* last_error = "";

  // What was done.
  int sums = 0, finalized = 0, destroyed = 0, aborted = 0, size = 0, rank = -1, blocking = -1;
  unsigned version = 0;
  std::size_t count = 0;
  int type = -1, operation = -1;
  void* stream = nullptr;
  int looks_left = 0;
};

/// Exported by the fake library as fake_nccl: the one FakeNccl that it follows.
using FakeNcclFunction = FakeNccl*();
inline constexpr const char* kFakeNcclFunction = "fake_nccl";

}  // namespace tombolo::trainer::cuda
