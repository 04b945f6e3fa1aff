// The state that all steps of the demo share, and the functions by which they start ranks.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "tools/demo/interrupt.h"
#include "tools/demo/options.h"
#include "tools/demo/screen.h"
#include "tools/emulation/emulation.h"
#include "topology/files/cluster_file.h"

namespace tombolo::tools::demo {

/// All members are borrowed for the duration of the demo. Used by one thread.
struct Session {
  const Options& options;
  Screen& screen;
  const InterruptWatch& interrupts;
  const emulation::Emulation& emulation;
  Deadline deadline;  ///< from --seconds-limit

  /// Path of a file of this run; files are removed with the emulation.
  std::string file(std::string_view name) const;
};

struct RankProgram {
  std::string what;                    ///< "probing the links", for errors
  std::vector<std::string> arguments;  ///< without the program's name
  std::vector<std::string> rank_hosts;
  std::optional<topology::ClusterFile>
      cluster;  ///< the cluster file that ranks get; absent = the emulation's own
  std::vector<std::pair<std::string, std::string>> environment;  ///< added for every rank
  std::function<void(int rank, std::string_view line)> on_line;  ///< may be empty
};

/// Runs `tombolo <arguments>` as one rank per entry of rank_hosts and waits for the end. Throws Interrupted;
/// kTimeout when --seconds-limit passed; kSystem with the failed rank's last lines.
void run_ranks(const Session& session, const RankProgram& program);

/// Runs `tombolo <arguments>` on one host and returns its standard output. Throws as run_ranks does.
std::string run_on_host(const Session& session, std::size_t host_index,
                        const std::vector<std::string>& arguments);

}  // namespace tombolo::tools::demo
