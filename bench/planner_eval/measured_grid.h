// Measured steps of jobs that are cut evenly: what the evaluations of such tables share.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bench/planner_eval/report.h"
#include "planner/plan/cluster_view.h"
#include "planner/planner.h"

namespace tombolo::bench {

/// The rows of a table of comma-separated values, by the names of its columns (the first line, with or
/// without
/// '#'). Throws kInvalidUsage naming the line that has another number of values.
std::vector<std::map<std::string, std::string>> read_table(const std::string& path);

/// The NICs of a host that carry training: so many that the library knows by that name, of which a pair
/// attains so much; 0 = the library's share of their rate.
struct HostNics {
  std::string_view name;
  int count = 1;
  double bytes_per_second = 0;
};

/// Hosts of `gpus` devices each that the library knows by that name, as `tombolo topo --fleet` has them.
topology::ClusterFile library_cluster(int hosts, std::string_view device, int gpus, const HostNics& nics);

/// The constants of that software. Throws kInvalidUsage where the library has none.
std::shared_ptr<const planner::ComputeProfiles> library_constants(std::string_view software);

/// A plan of `job`, whose degrees are all given, with so many layers on each stage (with model chunks, each
/// virtual stage); ranks in Megatron-LM's order. `view` must be of per-peer routing.
planner::Plan grid_plan_of(const planner::Job& job, const std::vector<int>& layers,
                           const planner::ClusterView& view);
/// Seconds of a step of that plan.
double step_seconds(const planner::Job& job, const std::vector<int>& layers,
                    const topology::ClusterFile& cluster);

/// A measured step and what was predicted for it.
struct GridRun {
  double measured = 0, predicted = 0;
  bool fitted = false;   ///< used to choose the constants
  std::string group;     ///< of layouts among which one would choose
  bool refused = false;  ///< predicted not to fit in memory, so that nobody would choose it
};
struct GridError {
  double mean = 0, median = 0;  ///< of the absolute errors, as a share of what was measured
  int rows = 0;
};
/// A run that took `measured` seconds: with what is predicted for that plan, and whether it is predicted not
/// to fit in memory.
GridRun predicted_run(const planner::Job& job, const std::vector<int>& layers,
                      const topology::ClusterFile& cluster, double measured);
/// ": 2.46 s, predicted 2.11 s (-14.0 %), and not to fit".
std::string beside_measured(const GridRun& run);
GridError error_of(const std::vector<GridRun>& runs, bool fitted);
/// By how much the layout that is predicted to be the fastest, of those that are not refused, was slower than
/// the fastest one, for each group of at least three runs, ascending. A group in which all are refused has
/// none.
std::vector<double> regrets(const std::vector<GridRun>& runs);

/// The error that is left of the runs in groups of at least two where each group's predictions are shifted by
/// whatever is best for it: what no prediction can get below that is alike for all runs of a group but for a
/// difference that is predicted.
GridError error_within_groups(const std::vector<GridRun>& runs);

/// "5.8 % (median 3.4 %) of 335 rows".
std::string describe(const GridError& error);

}  // namespace tombolo::bench
