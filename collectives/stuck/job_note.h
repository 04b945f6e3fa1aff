// How `tombolo stuck` finds a job from one of its processes: each keeps a note in a file of memory, which the
// same user, and nobody else, can read through /proc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "transport/descriptor.h"
#include "transport/sockets/secret.h"

namespace tombolo::collectives {

struct JobNote {
  std::string address;  ///< where this process reaches the store
  int port = 0;
  std::string prefix;        ///< of the job's keys
  transport::Secret secret;  ///< that opens the store
  std::int64_t rank = 0, size = 1;

  /// The file lives as long as the descriptor. Throws kSystem.
  transport::Descriptor publish() const;
};

/// The notes of a process, which need not be one of Tombolo's; empty also where this user may not look.
std::vector<JobNote> job_notes_of(std::int64_t process);

}  // namespace tombolo::collectives
