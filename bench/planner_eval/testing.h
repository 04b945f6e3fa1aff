// What the tests of the evaluations share: the figures of a report.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "bench/planner_eval/report.h"

namespace tombolo::bench {

/// The figure whose name has this in it. The test fails where there is none or a second one.
nlohmann::json figure_of(const EvaluationReport& report, const std::string& name);
/// What was seen of it.
std::string seen_of(const EvaluationReport& report, const std::string& name);
/// All notes, one a line.
std::string notes_of(const EvaluationReport& report);

}  // namespace tombolo::bench
