// The loss on data that is not trained on, while a run goes on.
#pragma once

#include <optional>

#include "trainer/data/rows.h"
#include "trainer/pipeline/pipeline_trainer.h"
#include "trainer/run/evaluation_options.h"

namespace tombolo::trainer {

/// Changes no bit of what is trained. One thread.
class Validation {
 public:
  /// `job` and `trainer` are those of the run of `steps` steps, and outlive the object. Throws kInvalidUsage
  /// where the data is unusable.
  Validation(const EvaluationOptions& options, const Job& job, int steps, PipelineTrainer& trainer);

  /// Collective, after every step: measures the loss where it is due and notes it in the report. Throws what
  /// PipelineTrainer::validate() throws.
  void after_step(StepReport& report);

 private:
  bool is_due(const StepReport& report) const noexcept;

  PipelineTrainer& trainer_;
  const int steps_, every_;
  int batches_ = 0;
  std::optional<Rows> rows_;
};

}  // namespace tombolo::trainer
