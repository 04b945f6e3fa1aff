// The flags that all commands share that start ranks: run, probe and perf.
#pragma once

#include <string>
#include <vector>

#include "tools/launch/launcher.h"

namespace CLI {
class App;
}

namespace tombolo::tools {

struct LaunchFlags {
  int ranks = 0;        ///< 0: one per device of the emulation, else one
  std::string emulate;  ///< empty: this machine as it is
  std::string mode = "auto";
  std::string order;
  std::string routing;
  std::vector<std::string> variables;  ///< "K=V"
  double timeout_seconds = 0;          ///< 0 = none
  double grace_seconds = to_seconds(kDefaultGrace);
  bool quiet = false;

  void add_to(CLI::App& app);
  /// Whether ranks are to be started here: with --emulate or -n.
  bool any() const noexcept { return ranks > 0 || !emulate.empty(); }
};

/// The arguments of launch(). The emulation, where there is one, must outlive the launch.
struct PreparedLaunch {
  std::unique_ptr<emulation::Emulation> emulation;
  LaunchOptions options;
};

/// Starts the emulation, which it announces on standard error. Throws kInvalidUsage and kUnsupported.
PreparedLaunch prepare_launch(const LaunchFlags& flags, std::vector<std::string> program);

/// Launches, and prints a failure's message as "tombolo <command>: ..."; returns the exit code.
int launch_and_report(const LaunchOptions& options, std::string_view command);

}  // namespace tombolo::tools
