// A prediction compared with a measured run, as text, JSON and a page.
#pragma once

#include <string>

#include "base/json.h"
#include "planner/simulate/calibrate.h"

namespace tombolo::tools {

/// The step, what each stage computes, bytes per link, and by how much each device was off. `calibration` was
/// made of this plan and this run; likewise for the other two functions.
std::string describe_calibration(const planner::Plan& plan, const planner::MeasuredRun& run,
                                 const planner::Calibration& calibration);

Json calibration_json(const planner::Plan& plan, const planner::MeasuredRun& run,
                      const planner::Calibration& calibration);

/// One HTML file that needs nothing but itself.
std::string calibration_page(const planner::Plan& plan, const topology::ClusterFile& cluster,
                             const planner::MeasuredRun& run, const planner::Calibration& calibration);

}  // namespace tombolo::tools
