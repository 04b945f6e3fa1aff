// tombolo plan: cluster file and model to plan file.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/units.h"
#include "planner/explain/reasons.h"
#include "planner/launch/launch.h"
#include "planner/planner.h"
#include "planner/simulate/calibrate.h"
#include "planner/simulate/training_log.h"
#include "planner/strategies/strategy.h"
#include "tools/cli/cluster_option.h"
#include "tools/cli/command.h"
#include "tools/cli/profile_option.h"
#include "tools/commands/plan_changes.h"
#include "tools/commands/plan_comparison.h"
#include "tools/commands/plan_here.h"
#include "tools/commands/plan_options.h"
#include "tools/commands/plan_running.h"
#include "tools/reports/plan_page.h"
#include "tools/reports/plan_report.h"

namespace tombolo::tools {
namespace {

constexpr const char* kWhatItDoes =
    "Decides which rank holds which layers of a GPT, from what the cluster file says of devices and links,\n"
    "and predicts what a training step will cost. Of every layout that divides and fits in memory a lower\n"
    "bound of its time is computed; those that may be fastest are simulated. Of the plans that are\n"
    "within --within of the fastest, the one is taken that crosses slow links least, leaves memory free\n"
    "and is simplest. A row is one sample: a sequence of --context tokens.\n"
    "\n"
    "For the bundled trainer, a layout is stages x replicas x micro-batch, and what is recomputed. For "
    "other\n"
    "frameworks (--framework) it is also the tensor-parallel degree with sequence parallelism, the schedule\n"
    "with its model chunks, and what replicas divide among themselves. What is left open is chosen among\n"
    "what the framework can express. The bundled trainer's memory is counted as it allocates it on a CPU or\n"
    "on a GPU (--device), and `tombolo train --plan` takes device, precision and recomputation from the "
    "plan.\n"
    "\n";

constexpr const char* kExamples =
    "Examples:\n"
    "  tombolo plan --cluster cluster.json --batch 32 \\\n"
    "    --model layers=8,hidden=128,heads=4,context=128,vocabulary=256 -o plan.json\n"
    "  tombolo plan --cluster cluster.json --layers 12 --width 768 --heads 12 --context 1024 \\\n"
    "    --vocabulary 50257 --batch 64 --pipeline 2 --emit megatron\n"
    "  tombolo plan --cluster cluster.json --framework megatron --batch 512 --shard-optimizer \\\n"
    "    --model layers=32,hidden=4096,heads=32,context=4096,vocabulary=50304,bytes=2\n"
    "  tombolo plan --cluster gpus.json --device cuda --dtype bf16 --batch 512 --model gpt2-124m\n"
    "  tombolo plan --cluster cluster.json --framework megatron --batch 512 --model gpt3-7.5b\n"
    "  tombolo plan --cluster cluster.json --framework megatron --batch 512 --model llama3-8b,context=4096\n"
    "  tombolo plan --cluster cluster.json --model layers=8,hidden=128,heads=4,context=128 --batch 32 \\\n"
    "    --what-if 'lose b1' --what-if 'link A B 10Gbit 2ms; speed b0 0.5'\n"
    "  tombolo plan --cluster cluster.json --model layers=8,hidden=128,heads=4,context=128 --batch 32 \\\n"
    "    --profile layers.json                     by measured times (tombolo profile)\n"
    "  tombolo plan --cluster now.json --running plan.json --steps-left 5000 -o next.json\n"
    "  srun tombolo plan --here --running plan.json --measured train.log -o next.json";

/// The strategies as `--help` lists them.
std::string strategies_help() {
  std::string text = "Strategies:\n";
  for (const planner::Strategy* strategy : planner::strategies()) {
    text += fmt::format("  {:<10}", strategy->name);
    for (const char one : strategy->help) {
      text += one;
      if (one == '\n') text += std::string(12, ' ');
    }
    text += '\n';
  }
  return text;
}

/// Says why each choice was made.
void add_reasons(planner::Plan& plan, const topology::ClusterFile& cluster) {
  for (std::string& reason : planner::reasons_of(plan, cluster)) plan.notes.push_back(std::move(reason));
}

/// Says why the plan is for its framework, where the user did not name it.
void note_framework(const PlanOptions& options, const topology::ClusterFile& cluster, planner::Plan& plan) {
  if (std::string why = guessed_framework(options, plan.job.model, cluster); !why.empty())
    plan.notes.push_back(std::move(why));
}

/// The plan. Where there is none, and the user did not name the framework, the error says so.
planner::Plan plan_of(const PlanOptions& options, const topology::ClusterFile& cluster,
                      const planner::Job& job, const planner::PlanOptions& plan_options) {
  try {
    return planner::make_plan(cluster, job, plan_options);
  } catch (const Error& error) {
    const std::string guess = guessed_framework(options, job.model, cluster);
    if (guess.empty()) throw;
    const bool bundled = job.framework == planner::Framework::kTombolo;
    fail(error.cause(), "{}. This was planned {}{}", error.what(), guess,
         bundled ? ", such as --framework megatron, whose ranks can share layers" : "");
  }
}

/// Corrects speeds by what the running plan's steps took: those of the profile, or of the cluster file's
/// devices.
void calibrate_by(const std::string& measured, const planner::Plan& running, topology::ClusterFile& cluster,
                  planner::Job& job) {
  const planner::MeasuredRun run = planner::load_run(measured, running);
  for (const std::string& note : run.notes) std::cerr << "tombolo plan: " << measured << ": " << note << '\n';
  try {
    planner::Calibration found = planner::calibrate(running, cluster, run);
    if (run.ranks.empty() && planner::at_most_spread(found.corrections.front().forward))
      std::cerr << fmt::format(
          "tombolo plan: {}: its steps take {} by the log and {} after passes were corrected by a factor of "
          "{}, "
          "the most that is tried: is it a log of this plan?\n",
          measured, format_seconds(run.median_step()), format_seconds(found.calibrated.step_seconds),
          found.corrections.front().forward > 1 ? planner::kMostSpread : 1 / planner::kMostSpread);
    if (found.profile)
      job.profile = found.profile;
    else
      cluster = std::move(found.cluster);
  } catch (const Error& error) {
    fail(error.cause(), "{}: {}", measured, error.what());
  }
}

int run_plan(PlanOptions options) {
  if (options.running.empty() && options.job.global_batch == 0)
    fail(Cause::kInvalidUsage, "--batch is required, but for --running, which has that plan's");
  if (options.here && !measure_here(options)) return kExitOk;
  std::optional<planner::Plan> running;
  if (!options.running.empty()) {
    running = load_running(options.running);
    take_over_job(*running, options);
  }
  auto cluster = load_cluster(options.cluster);
  planner::Job job = job_of(options, cluster);
  planner::PlanOptions plan_options;
  plan_options.strategy = options.strategy;
  plan_options.routing = options.routing;
  plan_options.alpha = options.alpha;
  plan_options.tolerance = options.within_percent / 100;
  plan_options.may_leave_out = options.may_leave_out;
  plan_options.rank_hosts = rank_hosts_of(options, cluster);
  if (!options.profile.empty()) {
    refuse_speeds(options.what_if);
    job.profile = load_profile(options.profile, job.model, plan_options.rank_hosts, cluster);
  }
  const planner::FixedChoices fixed = fixed_choices(options, job);
  planner::open_choices(fixed, states_memory(cluster), job, plan_options);
  plan_options.precision_by_devices = options.dtype.empty();
  planner::Plan plan;
  std::string changes;
  Json changes_json;
  if (!running) {
    plan = plan_of(options, cluster, job, plan_options);
    note_framework(options, cluster, plan);
    add_reasons(plan, cluster);
  } else {
    running->job.profile = job.profile;
    running->job.compute = job.compute;
    running->job.software = job.software;
    if (!options.measured.empty()) {
      calibrate_by(options.measured, *running, cluster, job);
      running->job.profile = job.profile;
    }
    planner::Replan next = planner::replan(cluster, *running, job, plan_options, options.steps_left);
    if (!next.keep) {  // a kept plan has its notes
      note_framework(options, cluster, next.plan);
      add_reasons(next.plan, cluster);
    }
    if (std::string left = running_software_left(options, cluster); !left.empty())
      next.plan.notes.push_back(std::move(left));
    changes = describe_replan(next, options.steps_left) + '\n';
    changes_json = replan_json(next);
    plan = std::move(next.plan);
  }
  if (job.profile) note_profile(options.profile, cluster, plan);
  std::string compared;
  const auto compare = [&]() -> const std::string& {
    if (compared.empty())
      compared = comparison(cluster, job, plan_options, plan.prediction.step_seconds) +
                 freer_gain(cluster, job, plan_options, fixed, plan);
    return compared;
  };
  const auto scenarios = plan_scenarios(options.what_if, plan, cluster, job, plan_options);
  if (!options.report.empty())
    write_text_file(options.report, plan_page(plan, cluster, planner::simulate(plan, cluster),
                                              {.comparison = compare(),
                                               .sensitivities = planner::sensitivities(plan, cluster),
                                               .scenarios = page_scenarios(scenarios)}));
  if (!options.output.empty()) plan.save(options.output);
  if (!options.what_if.empty()) {
    std::cout << (options.json ? scenarios_json(plan, scenarios).dump(1) + '\n'
                               : describe_scenarios(plan, scenarios));
  } else if (const auto launcher = planner::launcher_from_name(options.emit)) {
    const std::string path = options.cluster.empty() ? topology::kClusterParameter.text() : options.cluster;
    std::cout << planner::emit(*launcher, plan, cluster, std::filesystem::absolute(path).string());
  } else if (options.json) {
    std::cout << (changes_json.is_null() ? plan.to_json() : changes_json).dump(1) << '\n';
  } else {
    std::cout << changes << describe_plan(plan, cluster, planner::simulate(plan, cluster)) << '\n'
              << compare();
  }
  if (!options.report.empty()) std::cerr << "report written to " << options.report << '\n';
  if (!options.output.empty()) std::cerr << "plan written to " << options.output << '\n';
  return kExitOk;
}

}  // namespace

void add_plan(CommandLine& tombolo) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App& app = tombolo.add("plan", "Decide which rank holds which layers, and predict the step",
                              fmt::format("{}{}\n{}", kWhatItDoes, strategies_help(), kExamples),
                              [options] { return run_plan(*options); });
  add_plan_options(app, *options);
}

}  // namespace tombolo::tools
