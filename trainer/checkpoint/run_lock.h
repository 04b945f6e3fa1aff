// The lock on a run's checkpoint folder, which keeps a second run out of it.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "trainer/checkpoint/file_system.h"

namespace tombolo::trainer {

/// The name of the locked file in the folder. The file stays when the run ends: whether somebody holds the
/// lock is known to the operating system alone, and a file that came and went could be locked by two runs.
inline constexpr const char* kLockName = "lock";

/// Holds the lock from its construction to its destruction. The operating system frees it when the process
/// ends, however it ends. Its descriptor is closed on exec, so that no program started by the run keeps it.
class RunLock {
 public:
  /// Waits at most `patience` for a run that is just ending. Throws kInvalidUsage naming the folder and the
  /// process that holds the lock. Where the file cannot be written, or the file system has no locks, that is
  /// a warning and nothing is held. `files` outlives the object.
  RunLock(const std::string& folder, FileSystem& files, Duration patience, const Log& log);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  bool held() const noexcept { return descriptor_ >= 0; }

 private:
  FileSystem& files_;
  int descriptor_ = -1;  ///< negative where no lock is held
};

}  // namespace tombolo::trainer
