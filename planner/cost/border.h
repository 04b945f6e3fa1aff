// What passes from the ranks of one pipeline stage to those of the next.
#pragma once

#include "planner/plan/plan.h"

namespace tombolo::planner {

/// The bytes that the ranks of one stage, `from` of them, send in all to the `to` of another, where each of
/// these needs `bytes` (activations of a micro-batch, or their gradients): once where each rank sends its
/// part, else a copy to every rank, as the framework's traits say with and without sequence parallelism.
double border_bytes(const Job& job, double bytes, int from, int to) noexcept;

/// Bytes that one micro-batch of a replica sends from virtual stage `stage` to the next, which are also those
/// of the gradients that come back.
double sent_at_border(const Plan& plan, int replica, int stage);

/// The seconds that `to` ranks then take to gather the whole from their parts, at `bytes_per_second` between
/// two of them; 0 where they need not, or where that rate is unknown (0).
double border_gather_seconds(const Job& job, double bytes, int to, double bytes_per_second) noexcept;

}  // namespace tombolo::planner
