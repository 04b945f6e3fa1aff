// Version 7 of NCCL's profiler interface. NCCL 2.31 and 2.32 look this version up. It adds users' tags and
// phases of kernels. No sources of these releases have been published; that what is read is where it was in
// v6 was seen in the debugging information of 2.31.2 and 2.32.3 themselves.
#pragma once

#include "net_plugin/abi/profiler_v6.h"

namespace tombolo::net_plugin::abi {

using ncclProfilerEventDescr_v7_t = ncclProfilerEventDescr_v6_t;
using ncclProfilerEventStateArgs_v7_t = ncclProfilerEventStateArgs_v6_t;
struct ncclProfiler_v7_t : ncclProfiler_v5_t {};

}  // namespace tombolo::net_plugin::abi
