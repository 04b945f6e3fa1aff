#include "trainer/report/progress.h"

#include "base/format.h"
#include "trainer/report/utilisation.h"

namespace tombolo::trainer {
namespace {

constexpr double kSecondsPerLine = 1;
/// For the time left, a step counts about a third after this many seconds.
constexpr double kRecentSeconds = 30;

/// "42 s", "12 min 05 s", "3 h 20 min", "2 d 4 h"
std::string time_text(double seconds) {
  const auto whole = static_cast<long>(seconds + 0.5);
  constexpr long kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour;
  if (whole < kMinute) return fmt::format("{} s", whole);
  if (whole < kHour) return fmt::format("{} min {:02} s", whole / kMinute, whole % kMinute);
  if (whole < kDay) return fmt::format("{} h {:02} min", whole / kHour, whole % kHour / kMinute);
  return fmt::format("{} d {} h", whole / kDay, whole % kDay / kHour);
}

}  // namespace

std::string ProgressLines::line(const StepReport& report) {
  const double kept = 1 / (1 + report.seconds / kRecentSeconds);
  recent_seconds_ = recent_seconds_ * kept + report.seconds;
  recent_steps_ = recent_steps_ * kept + 1;
  since_line_ += report.seconds;
  const bool first = !any_;
  any_ = true;
  const int left = steps_ - report.step - 1;
  if (!first && left > 0 && !report.interrupted && !report.validation_loss && since_line_ < kSecondsPerLine)
    return {};
  since_line_ = 0;
  std::string line =
      fmt::format("step {}/{}  loss {:.4f}  norm {:.3f}  {:.1f} ms  {:.0f} tokens/s", report.step + 1, steps_,
                  report.loss, report.gradient_norm, report.seconds * 1e3, report.tokens_per_second);
  if (peak_ > 0)
    line += fmt::format("  MFU {:.1f} %", utilisation(shape_, report.tokens_per_second, peak_) * 100);
  if (report.validation_loss) line += fmt::format("  validation loss {:.4f}", *report.validation_loss);
  if (left > 0 && !report.interrupted)
    line += fmt::format("  {} left", time_text(left * recent_seconds_ / recent_steps_));
  return line;
}

}  // namespace tombolo::trainer
