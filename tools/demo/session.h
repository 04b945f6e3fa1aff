// What all steps of the demo share, and how they start ranks.
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

/// Everything is borrowed for the demo's life. One thread.
struct Session {
  const Options& options;
  Screen& screen;
  const InterruptWatch& interrupts;
  const emulation::Emulation& emulation;
  Deadline deadline;  ///< of --seconds-limit

  /// Where files of this run lie; gone with the emulation.
  std::string file(std::string_view name) const;
};

struct RankProgram {
  std::string what;                    ///< "probing the links", for errors
  std::vector<std::string> arguments;  ///< of this program, without its name
  std::vector<std::string> rank_hosts;
  std::optional<topology::ClusterFile> cluster;  ///< what the ranks see; default: the emulation's own
  std::vector<std::pair<std::string, std::string>> environment;  ///< added for every rank
  std::function<void(int rank, std::string_view line)> on_line;  ///< may be empty
};

/// Runs `tombolo <arguments>` as one rank per entry of rank_hosts and waits for the end. Throws Interrupted;
/// kTimeout when --seconds-limit passed; kSystem with the failed rank's last words.
void run_ranks(const Session& session, const RankProgram& program);

/// Runs `tombolo <arguments>` on one host and returns its standard output. Throws as run_ranks does.
std::string run_on_host(const Session& session, std::size_t host_index,
                        const std::vector<std::string>& arguments);

}  // namespace tombolo::tools::demo
