// A run's figures by step, for TensorBoard.
#pragma once

#include <memory>
#include <string>

#include "base/log.h"
#include "trainer/pipeline/pipeline_trainer.h"
#include "trainer/report/event_file.h"

namespace tombolo::trainer {

/// What is known of a step beside its report.
struct StepFigures {
  double learning_rate = 0;
  double utilisation = 0;  ///< see utilisation(); 0 = unknown
};

/// Used by one thread.
class ScalarLog {
 public:
  /// Empty folder: does nothing. Throws kSystem where the folder cannot be made or written to; but a run that
  /// goes on from a later step than 0 does so without the figures, and a warning says it.
  ScalarLog(const std::string& folder, int first_step, Log log);

  /// Writes loss, gradient norm, learning rate, tokens per second and utilisation. The first failure is
  /// logged as a warning, and nothing is written after it: training is worth more.
  void write(const StepReport& report, const StepFigures& figures);
  /// False once a write has failed.
  bool fine() const noexcept { return fine_; }

 private:
  Log log_;
  std::unique_ptr<EventFile> file_;
  bool fine_ = true;
};

}  // namespace tombolo::trainer
