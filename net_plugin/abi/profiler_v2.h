// Version 2 of NCCL's profiler interface. NCCL 2.24 to 2.30 look this version up. It differs from v1 in what
// describes collectives, which is not declared here.
#pragma once

#include "net_plugin/abi/profiler_v1.h"

namespace tombolo::net_plugin::abi {

using ncclProfilerEventDescr_v2_t = ncclProfilerEventDescr_v1_t;
using ncclProfilerEventStateArgs_v2_t = ncclProfilerEventStateArgs_v1_t;
struct ncclProfiler_v2_t : ncclProfiler_v1_t {};

}  // namespace tombolo::net_plugin::abi
