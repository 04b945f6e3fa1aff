// Version 7 of NCCL's profiler interface, for releases after 2.30. It adds users' tags and phases of kernels.
#pragma once

#include "net_plugin/abi/profiler_v6.h"

namespace tombolo::net_plugin::abi {

using ncclProfilerEventDescr_v7_t = ncclProfilerEventDescr_v6_t;
using ncclProfilerEventStateArgs_v7_t = ncclProfilerEventStateArgs_v6_t;
struct ncclProfiler_v7_t : ncclProfiler_v5_t {};

}  // namespace tombolo::net_plugin::abi
