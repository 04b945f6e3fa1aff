// How a subcommand of `tombolo` hooks in.
//
// tools/cli/ owns the command line: this interface, the options that several commands share, tables and
// progress bars.
//
// A subcommand is one file, tools/commands/<name>.cpp, which defines `void add_<name>(CommandLine&)`, and one
// line in tools/cli/commands.inc:
//
//   void add_topo(CommandLine& tombolo) {
//     auto options = std::make_shared<Options>();
//     CLI::App& app = tombolo.add("topo", "What is on this machine", kHelp, [options] { return run(*options);
//     }); app.add_flag("--json", options->json, "Print JSON instead of a table");
//   }
//
// The action prints facts to standard output (only JSON when --json was given) and everything else to
// standard error, returns an exit code, and reports failure by throwing tombolo::Error, printed as "tombolo
// <name>: <message>".
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace CLI {
class App;
}

namespace tombolo::tools {

// Exit codes, for scripts.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;    ///< tried and failed: any Error except kInvalidUsage
inline constexpr int kExitBadUsage = 2;  ///< the command line, a file or a variable is wrong (kInvalidUsage)

/// The command line of `tombolo`. Used from one thread.
class CommandLine {
 public:
  using Action = std::function<int()>;

  CommandLine();
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  /// Adds a subcommand. `summary` is one line for `tombolo --help`; `help` says what the subcommand does,
  /// with an example, and is shown below the options by `tombolo <name> --help`. The returned App takes the
  /// options and lives as long as this object; they are filled in before `action` runs.
  CLI::App& add(const std::string& name, const std::string& summary, const std::string& help, Action action);

  /// Parses, runs the chosen action, prints errors; returns the exit code. Throws nothing.
  int run(int argc, const char* const* argv) noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

#define TOMBOLO_COMMAND(name) void add_##name(CommandLine& tombolo);
#include "tools/cli/commands.inc"
#undef TOMBOLO_COMMAND

}  // namespace tombolo::tools
