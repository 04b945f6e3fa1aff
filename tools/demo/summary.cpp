#include "base/units.h"
#include "tools/cli/table.h"
#include "tools/demo/steps.h"
#include "tools/reports/svg.h"

namespace tombolo::tools::demo {

std::string summary(const Report& report) {
  Table table({"RUN", "TOKENS/S", "STEP", "PREDICTED", "ERROR", "ETHERNET", "FAST NICS", "SPEED"});
  const auto add = [&](const Run& run) {
    double ethernet = 0, fast = 0;
    for (const auto& link : run.links) {
      (topology::is_rdma(link.kind) ? fast : ethernet) += link.bytes_per_step;
    }
    double base = report.runs.front().tokens_per_second;
    table.add({run.title, fmt::format("{:.0f}", run.tokens_per_second),
               format_seconds(run.measured_step_seconds), format_seconds(run.predicted.step_seconds),
               run.prediction_error_text(), short_bytes(ethernet) + "/step", short_bytes(fast) + "/step",
               base > 0 ? fmt::format("{:.2f}x", run.tokens_per_second / base) : "-"});
  };
  for (const auto& run : report.runs) add(run);
  for (const auto& run : report.more) add(run);
  std::string text = table.text(0);
  text += fmt::format("speedup {:.2f}x, of that from placement {:.2f}x; the losses of the three {}",
                      report.speedup(), report.speedup_from_placement(), report.loss_agreement());
  if (!report.more.empty()) {
    text += fmt::format(
        "\n{} plans: predictions off by {:.0f} % at most; the predicted order is {}the measured one",
        report.runs.size() + report.more.size(), 100 * report.largest_prediction_error(),
        report.order_as_predicted() ? "" : "not ");
  }
  if (!report.loss.empty()) {
    text += fmt::format("\nloss {:.3f} -> {:.3f} over {} steps", report.loss.front(), report.loss.back(),
                        report.loss.size());
  }
  for (const std::string& remark : report.remarks()) text += "\nNOTE: " + remark;
  return text;
}

}  // namespace tombolo::tools::demo
