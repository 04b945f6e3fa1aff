// The log of a run's steps: JSON lines, one per step.
#pragma once

#include <cstdio>
#include <string>

#include "base/log.h"
#include "trainer/checkpoint/file_system.h"
#include "trainer/pipeline/pipeline_trainer.h"
#include "trainer/report/scalar_log.h"

namespace tombolo::trainer {

/// Used by one thread.
class StepLog {
 public:
  /// Empty path: does nothing. A run that begins with step 0 empties the file; one that goes on from a later
  /// step keeps the lines of the steps before it, and nothing else, so that the file becomes that of a run
  /// without interruption. Throws kSystem where it cannot be written; but a run that goes on does so without
  /// the log, and a warning says it. `files` outlives the object.
  StepLog(const std::string& path, int first_step, FileSystem& files, Log log);
  ~StepLog();
  StepLog(const StepLog&) = delete;
  StepLog& operator=(const StepLog&) = delete;

  /// Flushed. The first failure is logged as a warning, and nothing is written after it: training is worth
  /// more than its log.
  void write(const StepReport& report, const StepFigures& figures);
  /// Returns when all that was written is on the disk. The first failure is logged as a warning, and nothing
  /// is synced after it; writing goes on.
  void sync();
  /// False once a write has failed.
  bool fine() const noexcept { return fine_; }

 private:
  void open(int first_step);
  void warn(const std::string& what, int error, const std::string& consequence) const;

  std::string path_;
  FileSystem& files_;
  Log log_;
  std::FILE* file_ = nullptr;
  bool fine_ = true;
  bool syncs_ = true;  ///< false once that has failed
};

/// The lines of `text` that a run which goes on from `first_step` keeps: those of the steps before it, up to
/// the first that is no such line. Pure.
std::string lines_before(const std::string& text, int first_step);

}  // namespace tombolo::trainer
