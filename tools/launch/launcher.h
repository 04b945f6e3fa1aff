// Starts local ranks, optionally on the hosts of an emulation, and waits for their end.
//
// tools/launch/ owns what runs a job's ranks on this machine: the launcher, the order of ranks on hosts, the
// flags that commands share, and the measurement of layers on all ranks at once.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "tools/emulation/emulation.h"
#include "tools/process/stop_request.h"
#include "topology/files/cluster_file.h"

namespace tombolo::tools {

/// What ranks have between the request to end and the end: Slurm's KillWait.
inline constexpr Duration kDefaultGrace = std::chrono::seconds(30);

enum class Output {
  kPrefixed,  ///< every line, with "[rank] " before it
  kRankZero,  ///< only rank 0's lines, as they are
  kSilent,    ///< none of them (on_line still gets them)
};

struct LaunchOptions {
  int ranks = 1;
  std::vector<std::string> program;  ///< with arguments; looked up in PATH
  /// Added to this process's environment for every rank; takes precedence over what the launcher sets itself.
  std::vector<std::pair<std::string, std::string>> environment;

  const emulation::Emulation* emulation = nullptr;  ///< null: on this machine as it is
  /// The host of each rank, only with an emulation; see map_ranks(). Empty = block order.
  std::vector<std::string> rank_hosts;
  /// The cluster file that ranks get (TOMBOLO_CLUSTER) instead of the emulation's own, such as one with
  /// measured links.
  std::optional<topology::ClusterFile> cluster;

  Output output = Output::kPrefixed;
  /// Called by the launching thread with every line of every rank as it arrives, without its line end.
  std::function<void(int rank, std::string_view line)> on_line;
  /// Returns true for a line that is not to be printed.
  std::function<bool(int rank, std::string_view line)> hide;

  std::optional<Duration> timeout;  ///< for the whole run; empty = none
  /// Between asking ranks to end and killing them. One of them may be writing a checkpoint.
  Duration grace = kDefaultGrace;
};

struct LaunchResult {
  /// 0 where all succeeded; else the exit code of the first rank that failed (128 + N for signal N); 124
  /// after the timeout; 130 and 143 after SIGINT and SIGTERM to this process.
  int exit_code = 0;
  int failed_rank = -1;  ///< the first rank that failed
  /// for users: which rank, on which host, how it failed, and its last lines; empty for 0
  std::string message;
  std::vector<std::string> last_lines;  ///< of the failed rank, at most 10
};

/// Blocks until every rank has ended; nothing of them is left afterwards. A closed standard output does not
/// end them. While it runs, SIGINT, SIGTERM and SIGHUP to this process, where they are not ignored, are
/// passed on to the ranks, which are killed when the grace is over; a second one kills them at once, unless
/// it comes within kRepeatedSignal of the first. SIGUSR1 is passed on too, and the ranks take the time that
/// they need. Call it from the main thread. Throws kInvalidUsage (no ranks, a host that does not exist) and
/// kSystem (the program cannot be started).
LaunchResult launch(const LaunchOptions& options);

/// The host of each rank. `order` is the order in which launchers assign ranks: "block" (a0 a1 b0 b1),
/// "interleaved" (a0 b0 a1 b1, as a launcher may do that knows nothing of clusters) or the hosts' names, one
/// per rank, separated by commas. With more ranks than devices, "block" gives each host an equal run of
/// ranks. Throws kInvalidUsage. Pure.
std::vector<std::string> map_ranks(std::string_view order, const std::vector<topology::Host>& hosts,
                                   int ranks);

/// The path of this program's own file, to start ranks of itself.
std::string own_program();

}  // namespace tombolo::tools
