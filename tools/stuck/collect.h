// Finds a job, and asks for what its ranks say of themselves. It stops none of them.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "collectives/stuck/job_note.h"
#include "tools/stuck/findings.h"

namespace tombolo::tools::stuck {

struct Target {
  collectives::JobNote note;
  std::int64_t process = 0;  ///< whose note it is; 0: of none
};

/// `job` is the number of a process of this user: a rank, or what has started ranks, such as `tombolo run` or
/// torchrun; or the store's HOST:PORT, where TOMBOLO_SECRET opens it as it does for the ranks. Throws
/// kInvalidUsage where it is neither, naming what was looked at.
Target find_job(const std::string& job);

/// Takes about `patience` at most. Goes into the network namespace of the target's process where that has
/// another one, so the program must have one thread, and it stays there. What cannot be reached is named in
/// JobView::unreached.
JobView collect(const Target& target, Duration patience);

/// Of a process of this machine, as /proc says.
ProcessState process_state_of(std::int64_t process);

}  // namespace tombolo::tools::stuck
