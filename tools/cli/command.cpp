#include "tools/cli/command.h"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <map>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "base/text_distance.h"

namespace tombolo::tools {
namespace {

constexpr const char* kHelp =
    "Tombolo lets one training job span GPU clusters whose NICs differ: it finds out what each NIC is, "
    "measures\n"
    "what every link really gives, decides which part of the model lives where, and carries every byte over "
    "the\n"
    "best path that its two ends share.";

constexpr const char* kFooter =
    "A first look:\n"
    "  tombolo topo              what NICs and GPUs are here, which are usable, and why\n"
    "  tombolo env               every environment variable that Tombolo reads\n"
    "  tombolo <command> --help  what a command does, with an example\n"
    "\nExit codes: 0 all is well, 1 it was tried and failed, 2 the command line, a file or a variable is "
    "wrong.";

void print_error(std::string_view command, std::string_view message) {
  std::string line =
      fmt::format("tombolo{}{}: {}\n", command.empty() ? "" : " ", command, printable(message));
  std::fflush(stdout);
  std::fputs(line.c_str(), stderr);
}

}  // namespace

struct CommandLine::State {
  CLI::App app{kHelp, "tombolo"};
  std::map<std::string, Action> actions;
  std::vector<std::string> names;

  /// The subcommand that was given; empty where none was.
  std::string chosen() const {
    const auto given = app.get_subcommands();
    return given.empty() ? std::string() : given.front()->get_name();
  }
};

CommandLine::CommandLine() : state_(std::make_unique<State>()) {
  state_->app.footer(kFooter);
  state_->app.set_version_flag("--version", "tombolo " TOMBOLO_VERSION, "Print the version and leave");
  state_->app.require_subcommand(0, 1);  // run() checks which one, with a better message
  state_->app.get_formatter()->column_width(30);
}

CommandLine::~CommandLine() = default;

CLI::App& CommandLine::add(const std::string& name, const std::string& summary, const std::string& help,
                           Action action) {
  CLI::App* command = state_->app.add_subcommand(name, summary);
  command->footer(help);
  state_->actions[name] = std::move(action);
  state_->names.push_back(name);
  return *command;
}

int CommandLine::run(int argc, const char* const* argv) noexcept {
  std::string command;
  try {
    try {
      state_->app.parse(argc, argv);
    } catch (const CLI::Success& done) {  // --help, --version
      state_->app.exit(done);
      return kExitOk;
    } catch (const CLI::ParseError& error) {
      command = state_->chosen();
      std::string hint;
      if (command.empty() && argc > 1) {
        std::vector<std::string_view> names(state_->names.begin(), state_->names.end());
        if (auto nearest = nearest_name(argv[1], names))
          hint = fmt::format("; did you mean \"{}\"?", *nearest);
      }
      print_error(command, fmt::format("{}{} (tombolo{}{} --help shows what there is)", error.what(), hint,
                                       command.empty() ? "" : " ", command));
      return kExitBadUsage;
    } catch (const Error&) {  // of an option that reads its value itself
      command = state_->chosen();
      throw;
    }
    command = state_->chosen();
    if (command.empty()) {
      std::fputs(state_->app.help().c_str(), stderr);
      return kExitBadUsage;
    }
    int code = state_->actions.at(command)();
    errno = 0;
    // An action may have flushed already. Then the stream remembers the failure, but errno does not.
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      fail_errno(errno != 0 ? errno : EIO, "writing to standard output");
    }
    return code;
  } catch (const Error& error) {
    print_error(command, error.what());
    return error.cause() == Cause::kInvalidUsage ? kExitBadUsage : kExitFailed;
  } catch (const std::system_error& error) {  // fmt's, where standard output cannot be written
    print_error(command, error.what());
    return kExitFailed;
  } catch (const std::exception& error) {
    print_error(command,
                fmt::format("unexpected: {}. This is a bug in Tombolo; please report it.", error.what()));
    return kExitFailed;
  }
}

}  // namespace tombolo::tools
