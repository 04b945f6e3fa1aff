#include "trainer/run/validation.h"

#include <algorithm>

#include "trainer/data/open_source.h"

namespace tombolo::trainer {

Validation::Validation(const EvaluationOptions& options, const Job& job, int steps, PipelineTrainer& trainer)
    : trainer_(trainer), steps_(steps), every_(options.validate_every) {
  if (options.validation.empty()) return;
  rows_.emplace(open_source({options.validation, job.tokenizer}), job.shape.context, RowOrder{});
  const auto rows =
      std::min<std::uint64_t>(static_cast<std::uint64_t>(options.validation_rows), rows_->count());
  batches_ = std::max(1, static_cast<int>(rows) / job.parallel.global_batch);
}

bool Validation::is_due(const StepReport& report) const noexcept {
  if (!rows_ || report.interrupted) return false;
  const int made = report.step + 1;
  return made == steps_ || (every_ > 0 && made % every_ == 0);
}

void Validation::after_step(StepReport& report) {
  if (is_due(report)) report.validation_loss = trainer_.validate(*rows_, batches_);
}

}  // namespace tombolo::trainer
