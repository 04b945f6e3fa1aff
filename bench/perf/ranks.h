// Runs the ranks of this process: one, or with -t and -g several, each in a thread of its own.
#pragma once

#include <functional>

#include "tombolo/tombolo.hpp"

namespace tombolo::bench {

/// Calls `body` once per rank of this process, with the communicator of all ranks of the job, and returns the
/// greatest of its results. Ranks are numbered process by process. Throws what set-up throws; `body` must not
/// throw.
int run_ranks(int ranks_here, const std::function<int(const api::Communicator&)>& body);

}  // namespace tombolo::bench
