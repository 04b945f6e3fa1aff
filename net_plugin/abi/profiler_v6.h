// Version 6 of NCCL's profiler interface. NCCL 2.29 and 2.30 look this version up. It adds events of copy
// engines.
#pragma once

#include "net_plugin/abi/profiler_v5.h"

namespace tombolo::net_plugin::abi {

using ncclProfilerEventDescr_v6_t = ncclProfilerEventDescr_v5_t;
using ncclProfilerEventStateArgs_v6_t = ncclProfilerEventStateArgs_v5_t;
struct ncclProfiler_v6_t : ncclProfiler_v5_t {};

}  // namespace tombolo::net_plugin::abi
