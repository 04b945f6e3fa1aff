// One program of nccl-tests over Tombolo's engine. bench/perf/ owns these programs: flags, measuring,
// checking, table, JSON.
#pragma once

#include "bench/perf/collective.h"

namespace tombolo::bench {

/// Parses the command line, measures, checks, and prints on rank 0. Returns one of exit_codes.h.
int run_perf(const Collective& collective, int argc, const char* const* argv);

}  // namespace tombolo::bench
