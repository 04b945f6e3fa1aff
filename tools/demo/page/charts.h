// The drawings of report.html, each a self-contained <svg>.
#pragma once

#include <string>

#include "tools/demo/page/rate_scale.h"
#include "tools/demo/report.h"

namespace tombolo::tools::demo {

/// Tokens per second, with one bar per run.
std::string draw_tokens(const Report& report);

/// Step time per run, with a bar for the measured one and a mark for the predicted one.
std::string draw_predictions(const Report& report);

/// Bytes per step, with one stacked bar per run, by the kind of NIC that carried them.
std::string draw_traffic(const Report& report);

/// Attained bandwidth from host to host over NICs named `nic`.
std::string draw_heat_map(const Report& report, const std::string& nic, const RateScale& scale);

/// The loss by step.
std::string draw_loss(const Report& report);

}  // namespace tombolo::tools::demo
