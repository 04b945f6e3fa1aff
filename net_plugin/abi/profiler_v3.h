// Version 3 of NCCL's profiler interface. NCCL 2.26 to 2.30 look this version up. It adds events of kernels
// and of networks.
#pragma once

#include "net_plugin/abi/profiler_v2.h"

namespace tombolo::net_plugin::abi {

using ncclProfilerEventDescr_v3_t = ncclProfilerEventDescr_v2_t;
using ncclProfilerEventStateArgs_v3_t = ncclProfilerEventStateArgs_v2_t;
struct ncclProfiler_v3_t : ncclProfiler_v2_t {};

}  // namespace tombolo::net_plugin::abi
