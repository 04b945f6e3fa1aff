// All tables of NCCL's profiler interface, which NCCL looks up as ncclProfiler_v1 to ncclProfiler_v7.
#pragma once

#include "net_plugin/abi/profiler_v1.h"
#include "net_plugin/abi/profiler_v2.h"
#include "net_plugin/abi/profiler_v3.h"
#include "net_plugin/abi/profiler_v4.h"
#include "net_plugin/abi/profiler_v5.h"
#include "net_plugin/abi/profiler_v6.h"
#include "net_plugin/abi/profiler_v7.h"
