// tombolo simulate: what a plan's training step is predicted to cost, and why.
#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "planner/simulator.h"
#include "tools/cluster_option.h"
#include "tools/command.h"
#include "tools/plan_report.h"

namespace tombolo::tools {
namespace {

constexpr const char* kSimulateHelp =
    "Executes one training step of a plan event by event: the 1F1B order of every stage, transfers that\n"
    "share NICs, gradient reduction that overlaps the backward pass. Nothing is run or measured.\n"
    "\n"
    "Examples:\n"
    "  tombolo simulate --plan plan.json --cluster cluster.json\n"
    "  tombolo simulate --plan plan.json --cluster cluster.json --trace step.json\n"
    "    (open step.json in chrome://tracing or ui.perfetto.dev)";

struct SimulateOptions {
  std::string plan, cluster, trace;
  bool json = false;
};

Json to_json(const planner::Plan& plan, const planner::Simulation& simulation) {
  Json ranks = Json::array(), links = Json::array();
  const std::vector<double> busy = planner::busy_seconds(simulation, plan);
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank)
    ranks.push_back({{"rank", rank},
                     {"host", plan.ranks[rank].host},
                     {"stage", plan.ranks[rank].stage},
                     {"replica", plan.ranks[rank].replica},
                     {"busy_seconds", busy[rank]},
                     {"utilisation", busy[rank] / simulation.step_seconds}});
  for (const auto& link : simulation.links)
    links.push_back({{"from", link.from_host + "/" + link.from_nic},
                     {"to", link.to_host + "/" + link.to_nic},
                     {"bytes", link.bytes}});
  return {{"step_seconds", simulation.step_seconds},
          {"tokens_per_second",
           static_cast<double>(plan.job.global_batch) * plan.job.model.context / simulation.step_seconds},
          {"bubble_fraction", simulation.bubble_fraction},
          {"ranks", std::move(ranks)},
          {"links", std::move(links)}};
}

int run_simulate(const SimulateOptions& options) {
  const auto plan = planner::Plan::load(options.plan);
  const auto cluster = load_cluster(options.cluster);
  const auto simulation = planner::simulate(plan, cluster);
  if (!options.trace.empty()) {
    write_json_file(options.trace, planner::to_chrome_trace(simulation, plan));
    std::cerr << "trace written to " << options.trace << '\n';
  }
  if (options.json) {
    std::cout << to_json(plan, simulation).dump(1) << '\n';
  } else {
    std::cout << describe_simulation(plan, cluster, simulation);
  }
  return kExitOk;
}

}  // namespace

void add_simulate(CommandLine& tombolo) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App& app = tombolo.add("simulate", "Predict a plan's training step, with a timeline", kSimulateHelp,
                              [options] { return run_simulate(*options); });
  app.add_option("--plan", options->plan, "Plan file (docs/plan-file.md)")->required();
  app.add_option("--cluster", options->cluster,
                 "Cluster file (docs/cluster-file.md); default: TOMBOLO_CLUSTER");
  app.add_option("--trace", options->trace, "Write the timeline as Chrome trace events here");
  app.add_flag("--json", options->json, "Print JSON instead of a report");
}

}  // namespace tombolo::tools
