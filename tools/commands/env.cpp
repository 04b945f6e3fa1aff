// tombolo env: every environment variable that Tombolo reads.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "base/json.h"
#include "tools/cli/command.h"
#include "tools/cli/parameters.h"
#include "tools/cli/table.h"

namespace tombolo::tools {
namespace {

constexpr const char* kEnvHelp =
    "Prints every environment variable that Tombolo reads: its type, what it is when unset, what it is now, "
    "and\n"
    "what it means. A value that cannot be used is shown with the reason and makes the exit code 1; a "
    "variable\n"
    "that begins with TOMBOLO_ and that nothing reads is reported on standard error.\n"
    "\nExamples:\n"
    "  tombolo env\n"
    "  tombolo env --set                    only what is set now\n"
    "  tombolo env --json | jq '.parameters[] | select(.set)'";

struct EnvOptions {
  bool json = false;
  bool set_only = false;
};

int run_env(const EnvOptions& options) {
  Json json{{"parameters", Json::array()}, {"unknown", unknown_variables()}};
  Table table({"NAME", "TYPE", "DEFAULT", "NOW", "SET", "MEANING"});
  std::vector<std::string> problems;
  for (const auto& room : all_parameters()) {
    for (const Parameter* parameter : room.parameters) {
      if (options.set_only && !parameter->is_set()) continue;
      auto problem = problem_of(*parameter);
      if (problem) problems.push_back(*problem);
      Json entry{{"name", parameter->name},
                 {"room", room.room},
                 {"type", parameter_type_name(parameter->type)},
                 {"default", parameter->default_value},
                 {"meaning", parameter->meaning},
                 {"value", shown_value(*parameter)},
                 {"set", parameter->is_set()},
                 {"valid", !problem.has_value()}};
      if (problem) entry["problem"] = *problem;
      if (!parameter->choices.empty()) entry["choices"] = parameter->choices;
      json["parameters"].push_back(std::move(entry));
      auto shown = [](std::string_view text) { return text.empty() ? std::string("-") : std::string(text); };
      table.add({std::string(parameter->name),
                 std::string(parameter->choices.empty() ? parameter_type_name(parameter->type)
                                                        : parameter->choices),
                 shown(parameter->default_value), shown(shown_value(*parameter)),
                 parameter->is_set() ? "yes" : "no", std::string(parameter->meaning)});
    }
  }
  if (options.json) {
    fmt::print("{}\n", json.dump(1, ' ', false, Json::error_handler_t::replace));
  } else if (table.empty()) {
    fmt::print("No variable of Tombolo's is set; everything is as by default.\n");
  } else {
    fmt::print("{}", table.text(terminal_width()));
  }
  std::fflush(stdout);
  for (const auto& line : unknown_variables()) fmt::print(stderr, "tombolo env: {}\n", line);
  for (const auto& line : problems) fmt::print(stderr, "tombolo env: {}\n", line);
  return problems.empty() ? kExitOk : kExitFailed;
}

}  // namespace

void add_env(CommandLine& tombolo) {
  auto options = std::make_shared<EnvOptions>();
  CLI::App& app = tombolo.add("env", "Every environment variable: type, default, value, meaning", kEnvHelp,
                              [options] { return run_env(*options); });
  app.add_flag("--json", options->json, "Print JSON instead of a table");
  app.add_flag("--set", options->set_only, "Only those that are set");
}

}  // namespace tombolo::tools
