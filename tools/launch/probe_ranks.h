// Measures links and devices on the ranks of a job, for the commands that do.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "collectives/engine/communicator.h"
#include "probe/bootstrap/rendezvous_group.h"
#include "probe/probe.h"

namespace tombolo::tools {

/// One rank's speeds. All members are doubles, so that an all-gather can carry them.
struct RankSpeeds {
  probe::DeviceSpeed alone, together;
  double gpu = 0;  ///< 1 for a GPU
};
static_assert(sizeof(RankSpeeds) == 7 * sizeof(double));

struct ProbeRequest {
  double seconds = 0;   ///< per measurement; 0: depends on the number of steps
  bool compute = true;  ///< devices too
  std::function<void(int done, int total)> progress;
};

struct ProbedJob {
  int rank = 0;  ///< of this process
  std::vector<collectives::Member> members;
  topology::ClusterFile cluster;
  probe::ProbedLinks links;
  std::vector<RankSpeeds> speeds;         ///< by rank; empty without `compute`
  std::vector<std::string> gpu_problems;  ///< by rank, why its GPU was not measured; empty where it was
  std::vector<std::string> told;  ///< NICs that do not reach each other, and why that is taken to be so
  std::vector<std::string> unexplained;  ///< links that should have been measured and were not
};

/// The options of the job that a launcher started. Throws kInvalidUsage where there is only one rank.
collectives::Options options_of_job();

/// Collective over the ranks of the group, of which `engine` is. All ranks get the same result but for
/// `rank`.
ProbedJob probe_job(const ProbeRequest& request, const collectives::Options& engine,
                    probe::RendezvousGroup& group);

/// Prints what was left out, on standard error.
void print_problems(const ProbedJob& probed, std::string_view command);

}  // namespace tombolo::tools
