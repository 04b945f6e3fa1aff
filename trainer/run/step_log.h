// The log of a run's steps: JSON lines, one per step.
#pragma once

#include <cstdio>
#include <string>

#include "base/log.h"
#include "trainer/pipeline/pipeline_trainer.h"
#include "trainer/report/scalar_log.h"

namespace tombolo::trainer {

/// Used by one thread.
class StepLog {
 public:
  /// Empty path: does nothing. A run that begins with step 0 empties the file; one that goes on from a later
  /// step keeps the lines of the steps before it, and nothing else, so that the file becomes that of a run
  /// without interruption. Throws kSystem: cannot be written.
  StepLog(const std::string& path, int first_step, Log log);
  ~StepLog();
  StepLog(const StepLog&) = delete;
  StepLog& operator=(const StepLog&) = delete;

  /// Flushed. The first failure is logged as a warning, and nothing is written after it: training is worth
  /// more than its log.
  void write(const StepReport& report, const StepFigures& figures);
  /// False once a write has failed.
  bool fine() const noexcept { return fine_; }

 private:
  std::string path_;
  Log log_;
  std::FILE* file_ = nullptr;
  bool fine_ = true;
};

/// The lines of `text` that a run which goes on from `first_step` keeps: those of the steps before it, up to
/// the first that is no such line. Pure.
std::string lines_before(const std::string& text, int first_step);

}  // namespace tombolo::trainer
