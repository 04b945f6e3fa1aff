// The steps of the demo. Each shows its progress on the session's screen, and throws on failure: Interrupted,
// or tombolo::Error naming what failed.
//
// tools/demo/ owns `tombolo demo`: its steps, its report and the page with its drawings.
#pragma once

#include <string>
#include <vector>

#include "planner/plan/plan.h"
#include "planner/simulate/simulator.h"
#include "tools/demo/report.h"
#include "tools/demo/session.h"

namespace tombolo::tools::demo {

/// Measures how fast this machine multiplies matrices and computes the model's layers, and chooses the rates
/// of the links by that: fills in report.products, profile, cores, computing_seconds and rates.
void measure_computing(const Options& options, Screen& screen, Report& report);

/// Runs the detection inside every host and shows what it found.
void detect(const Session& session);

/// Measures every link; fills in report.cluster, with the speed of the profile's layers.
void probe(const Session& session, Report& report);

/// Plans the three ways to run the same job and predicts them: fills in report.runs up to `predicted`.
void plan(const Session& session, const std::vector<std::string>& rank_hosts, Report& report);

/// Makes five other plans of the same job: fills in report.more up to `predicted`.
void plan_more(const Session& session, const std::vector<std::string>& rank_hosts, Report& report);

/// Trains the same few steps in each of the three ways, and by each of the other plans, in rounds. Each round
/// begins with a short warm-up by one of the plans; from its times all of them are predicted anew before they
/// run. Fills in what was predicted and measured.
void compare(const Session& session, const std::vector<std::string>& rank_hosts, const std::string& text,
             Report& report);

/// Trains on with the fastest of the three; fills in loss and sample. Writes the weights to `weights`.
void train_on(const Session& session, const std::vector<std::string>& rank_hosts, const std::string& text,
              const std::string& weights, Report& report);

/// Returns the final table.
std::string summary(const Report& report);

}  // namespace tombolo::tools::demo
