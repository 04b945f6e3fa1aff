// Counts what operator new gave and nobody gave back.
#pragma once

#include <cstdint>
#include <functional>

#include "tests/simulation/checks/verdict.h"

namespace tombolo::simulation {

/// How many allocations more this thread has made than it has given back; always 0 under a sanitizer, which
/// looks for leaks itself. What C libraries take from malloc is not counted.
std::int64_t live_allocations() noexcept;

/// The verdict of a run, which is wrong too where it leaves allocations. Such a run is made again, without a
/// log: what is made once per process looks like a leak the first time.
Verdict with_allocations_checked(const RunOptions& options,
                                 const std::function<Verdict(const RunOptions&)>& run);

}  // namespace tombolo::simulation
