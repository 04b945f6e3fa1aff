// A prediction compared with a measured run, as text, JSON and a page.
#pragma once

#include <string>

#include "base/json.h"
#include "planner/simulate/calibrate.h"

namespace tombolo::tools {

/// Describes the step, what each stage computes, bytes per link, and the error of each device's speed.
/// `calibration` must be made from this plan and this run; likewise for the other two functions.
std::string describe_calibration(const planner::Plan& plan, const planner::MeasuredRun& run,
                                 const planner::Calibration& calibration);

Json calibration_json(const planner::Plan& plan, const planner::MeasuredRun& run,
                      const planner::Calibration& calibration);

/// One HTML file that needs no other file.
std::string calibration_page(const planner::Plan& plan, const topology::ClusterFile& cluster,
                             const planner::MeasuredRun& run, const planner::Calibration& calibration);

}  // namespace tombolo::tools
