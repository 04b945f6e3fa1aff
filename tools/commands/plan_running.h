// `tombolo plan --running`: the plan that runs now, which is the job's, and with which a new one is compared.
#pragma once

#include <string>

#include "tools/commands/plan_options.h"

namespace tombolo::tools {

/// Reads a plan that runs. Files of earlier versions do not say what stages do while they send: that follows
/// from the framework. Throws kInvalidUsage naming file, line and field.
planner::Plan load_running(const std::string& path);
/// The same of a plan's text, which came from the file of that name.
planner::Plan parse_running(std::string_view text, const std::string& path);

/// Sets what options leave open of the job to what the running plan has: the model, the batch, the framework
/// with its attention, the precision, and the bundled trainer's device and moments; job_of() takes over the
/// software, where the cluster's GPUs have records of it. How the job is divided stays open. Throws
/// kInvalidUsage where options ask for another job, whose steps could not be compared with the plan's:
/// another batch, framework, precision or model.
void take_over_job(const planner::Plan& running, PlanOptions& options);

}  // namespace tombolo::tools
