// tombolo simulate: how long a plan's training step is predicted to take, and why.
#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "planner/simulate/calibrate.h"
#include "planner/simulate/simulator.h"
#include "planner/simulate/training_log.h"
#include "tools/cli/cluster_option.h"
#include "tools/cli/command.h"
#include "tools/cli/profile_option.h"
#include "tools/reports/calibration_report.h"
#include "tools/reports/plan_report.h"

namespace tombolo::tools {
namespace {

constexpr const char* kSimulateHelp =
    "Executes one training step of a plan event by event: the 1F1B order of every stage, transfers that\n"
    "share NICs, gradient reduction that overlaps the backward pass. Nothing is run or measured.\n"
    "\n"
    "With --measured it is set beside what the trainer measured of a short run of the same plan (tombolo "
    "train\n"
    "--measured): the step, what each stage computes, bytes per link, and by how much each device was off; "
    "or\n"
    "beside the steps in a log of Megatron-LM, NeMo, torchtitan or DeepSpeed.\n"
    "--calibrate writes what the next prediction should go by: the profile of --profile with corrected "
    "times, "
    "or\n"
    "without one the cluster file with corrected speeds of devices and memory.\n"
    "\n"
    "Examples:\n"
    "  tombolo simulate --plan plan.json --cluster cluster.json\n"
    "  tombolo simulate --plan plan.json --cluster cluster.json --profile layers.json --measured run.json "
    "\\\n"
    "    --report measured.html --calibrate calibrated.json\n"
    "  tombolo simulate --plan plan.json --cluster cluster.json --trace step.json\n"
    "    (open step.json in chrome://tracing or ui.perfetto.dev)";

struct SimulateOptions {
  std::string plan, cluster, profile, trace;
  std::string measured, report, calibrate;
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

/// Compares the prediction with a measured run, and writes the files that were asked for.
int run_measured(const SimulateOptions& options, const planner::Plan& plan,
                 const topology::ClusterFile& cluster) {
  const auto run = planner::load_run(options.measured, plan);
  planner::Calibration calibration;
  try {
    calibration = planner::calibrate(plan, cluster, run);
  } catch (const Error& error) {
    fail(error.cause(), "{}: {}", options.measured, error.what());
  }
  if (options.json) {
    std::cout << calibration_json(plan, run, calibration).dump(1) << '\n';
  } else {
    std::cout << describe_calibration(plan, run, calibration);
  }
  if (!options.report.empty()) {
    write_text_file(options.report, calibration_page(plan, cluster, run, calibration));
    std::cerr << "report written to " << options.report << '\n';
  }
  if (!options.calibrate.empty()) {
    write_json_file(options.calibrate,
                    calibration.profile ? calibration.profile->to_json() : calibration.cluster.to_json());
    std::cerr << "calibrated " << (calibration.profile ? "profile" : "cluster file") << " written to "
              << options.calibrate << '\n';
  }
  return kExitOk;
}

int run_simulate(const SimulateOptions& options) {
  auto plan = planner::Plan::load(options.plan);
  auto cluster = load_cluster(options.cluster);
  plan.job.compute =
      planner::library_profiles(planner::framework_name(plan.job.framework), plan.job.software);
  if (!options.profile.empty())
    plan.job.profile = load_profile(options.profile, plan.job.model, planner::hosts_of(plan), cluster);
  if (!options.measured.empty()) return run_measured(options, plan, cluster);
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
  app.add_option("--profile", options->profile,
                 "Measured layer times (tombolo profile, docs/planning.md) in place of FLOPs over FLOP/s")
      ->type_name("FILE");
  auto* measured = app.add_option("--measured", options->measured,
                                  "What `tombolo train --measured` wrote of a run of this plan, or the log "
                                  "of it by Megatron-LM, NeMo, torchtitan or DeepSpeed: compare with it")
                       ->type_name("FILE");
  app.add_option("--report", options->report, "With --measured: write a page (HTML) here")
      ->type_name("FILE")
      ->needs(measured);
  app.add_option(
         "--calibrate", options->calibrate,
         "With --measured: write the corrected profile here, or without --profile the corrected cluster "
         "file")
      ->type_name("FILE")
      ->needs(measured);
  app.add_option("--trace", options->trace, "Write the timeline as Chrome trace events here")
      ->excludes(measured);
  app.add_flag("--json", options->json, "Print JSON instead of a report");
}

}  // namespace tombolo::tools
