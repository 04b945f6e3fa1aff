// Compares the planner with measurements that others published, and prints wanted beside seen values.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "bench/planner_eval/report.h"

namespace {

using namespace tombolo::bench;

constexpr const char* kHelp =
    "Holds the planner against published measurements and prints wanted beside seen.\n"
    "\n"
    "The measurements are no part of the repository: --data names their folder (or TOMBOLO_PLANNER_DATA; "
    "else\n"
    "../shared/data/planner). What is not there is skipped with a notice.\n"
    "\n"
    "Examples:\n"
    "  planner_eval\n"
    "  planner_eval --only sailor --details\n"
    "  planner_eval --check --markdown docs/results/planner_eval.md";

const std::map<std::string, std::function<void(const EvaluationOptions&, EvaluationReport&)>>& sections() {
  static const std::map<std::string, std::function<void(const EvaluationOptions&, EvaluationReport&)>> all{
      {"amp", evaluate_amp},
      {"flashflex", evaluate_flashflex},
      {"holmes", evaluate_holmes},
      {"pipette", evaluate_pipette},
      {"random", evaluate_random},
      {"sailor", evaluate_sailor},
      {"scale", evaluate_scale},
      {"playbook", evaluate_playbook},
      {"vtrain", evaluate_vtrain},
      {"megatron-a100", evaluate_megatron_a100},
      {"megatron-readme", evaluate_megatron_readme},
      {"nemo-h100", evaluate_nemo_h100},
      {"torchtitan-a100", evaluate_torchtitan_a100},
  };
  return all;
}

std::vector<std::string> section_names() {
  std::vector<std::string> names;
  for (const auto& [name, evaluate] : sections()) names.push_back(name);
  return names;
}

}  // namespace

int main(int argc, char** argv) try {
  EvaluationOptions options;
  const char* folder = std::getenv("TOMBOLO_PLANNER_DATA");
  options.data = folder != nullptr ? folder : "../shared/data/planner";
  std::vector<std::string> only;
  std::string markdown, about;
  bool json = false, check = false;
  CLI::App app(kHelp, "planner_eval");
  app.add_option("--data", options.data, "Folder of the measurements")->capture_default_str();
  app.add_option("--seconds", options.annealing_seconds, "What Pipette's annealing gets for each layout")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 3600.0));
  app.add_option("--only", only,
                 fmt::format("Sections to run: {} (default: all)", fmt::join(section_names(), ", ")))
      ->check(CLI::IsMember(section_names()));
  app.add_option("--trials", options.trials, "Random larger clusters; a quarter as many small ones")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  app.add_option("--seed", options.seed, "Of the random clusters")->capture_default_str();
  app.add_option("--scale", options.most_ranks, "Time plans for up to so many GPUs: 64, 1024, 8192")
      ->capture_default_str();
  app.add_option("--rows", options.rows, "Rows per step of the plans for two halls")
      ->capture_default_str()
      ->check(CLI::Range(64, 1000000));
  app.add_flag("--details", options.details, "Print every measured run");
  auto* page = app.add_option("--markdown", markdown, "Also write the tables to this file");
  app.add_option("--about", about, "A line for that file: when, where and of which commit it was measured")
      ->needs(page);
  app.add_flag("--json", json, "Print JSON");
  app.add_flag("--check", check, "Exit with 1 where a bound is missed");
  CLI11_PARSE(app, argc, argv);

  EvaluationReport report;
  for (const auto& [name, evaluate] : sections())
    if (only.empty() || std::ranges::find(only, name) != only.end()) evaluate(options, report);
  if (json)
    std::cout << report.json().dump(1) << '\n';
  else
    std::cout << report.table();
  if (!markdown.empty()) {
    std::ofstream file(markdown);
    file << "# The planner against published measurements\n\nWritten by `planner_eval`; the measurements "
            "themselves are no part of the repository.\n\n";
    if (!about.empty()) file << about << "\n\n";
    file << report.markdown();
    file.close();
    if (!file) tombolo::fail(tombolo::Cause::kSystem, "cannot write {}", markdown);
  }
  return check && !report.all_met() ? 1 : 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "planner_eval: %s\n", error.what());
  return 2;
}
