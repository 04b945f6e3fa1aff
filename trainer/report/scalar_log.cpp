#include "trainer/report/scalar_log.h"

#include <chrono>

#include "base/error.h"

namespace tombolo::trainer {

ScalarLog::ScalarLog(const std::string& folder, int first_step, Log log) : log_(std::move(log)) {
  if (folder.empty()) return;
  try {
    file_ = std::make_unique<EventFile>(folder);
  } catch (const Error& error) {
    if (first_step == 0) throw;
    fine_ = false;
    log_.warning("{}; training goes on without it", error.what());
  }
}

void ScalarLog::write(const StepReport& report, const StepFigures& figures) {
  if (!file_ || !fine_) return;
  const double time =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  try {
    file_->scalar("loss", report.step, time, report.loss);
    file_->scalar("gradient norm", report.step, time, report.gradient_norm);
    file_->scalar("learning rate", report.step, time, figures.learning_rate);
    file_->scalar("tokens per second", report.step, time, report.tokens_per_second);
    if (report.validation_loss) file_->scalar("validation loss", report.step, time, *report.validation_loss);
    if (figures.utilisation > 0) file_->scalar("MFU", report.step, time, figures.utilisation);
  } catch (const Error& error) {
    fine_ = false;
    log_.warning("{}; training goes on without it", error.what());
  }
}

}  // namespace tombolo::trainer
