// tombolo plan: cluster file and model to plan file.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/units.h"
#include "planner/launch/launch.h"
#include "planner/planner.h"
#include "planner/strategies/strategy.h"
#include "tools/cli/cluster_option.h"
#include "tools/cli/command.h"
#include "tools/cli/model_options.h"
#include "tools/cli/profile_option.h"
#include "tools/cli/validators.h"
#include "tools/commands/plan_changes.h"
#include "tools/launch/launcher.h"
#include "tools/reports/plan_page.h"
#include "tools/reports/plan_report.h"

namespace tombolo::tools {
namespace {

constexpr const char* kWhatItDoes =
    "Decides which rank holds which layers of a GPT, from what the cluster file says of devices and links,\n"
    "and predicts what a training step will cost. Every layout that divides and fits in memory is tried in\n"
    "simulation; the fastest wins.\n"
    "\n"
    "For the bundled trainer, a layout is stages x replicas x micro-batch, and what is recomputed. For\n"
    "Megatron-LM (--framework megatron) it is also the tensor-parallel degree, the schedule with its model\n"
    "chunks, and whether the optimizer's state is sharded; what is left open is chosen. The bundled "
    "trainer's\n"
    "memory is counted as it allocates it on a CPU or on a GPU (--device), and `tombolo train --plan` takes\n"
    "device, precision and recomputation from the plan.\n"
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
    "  tombolo plan --cluster now.json --running plan.json --steps-left 5000 -o next.json \\\n"
    "    --model layers=8,hidden=128,heads=4,context=128 --batch 32";

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

struct PlanOptions {
  std::string cluster, profile;
  ModelOptions model;
  planner::Job job;
  std::string strategy = planner::PlanOptions().strategy, routing = "per-peer", order;
  int ranks = 0;
  double alpha = 1.0;
  int tensor = 0;  // 0: left open
  std::string framework = "tombolo", schedule, recompute, device, dtype, moments, reserve;
  int chunks = 0;
  std::optional<bool> shard_optimizer;  // absent: left open
  std::string output, emit, report;
  std::vector<std::string> what_if;
  std::string running;
  double steps_left = 1000;
  bool json = false, may_leave_out = false;
};

bool has_only_gpus(const topology::ClusterFile& cluster) {
  bool any = false;
  for (const auto& host : cluster.hosts)
    for (const auto& device : host.devices) {
      if (device.kind != topology::DeviceKind::kGpu) return false;
      any = true;
    }
  return any;
}

/// On what the bundled trainer will compute, and in which precision.
void set_device(const PlanOptions& options, const topology::ClusterFile& cluster, planner::Job& job) {
  if (job.framework == planner::Framework::kTombolo) {
    const bool gpus = options.device.empty() ? has_only_gpus(cluster) : options.device == "cuda";
    if (gpus) job.device = planner::TrainerDevice::kCuda;
  } else if (!options.device.empty() || !options.moments.empty()) {
    fail(Cause::kInvalidUsage, "--device and --moments are the bundled trainer's (--framework tombolo)");
  }
  if (!options.dtype.empty()) {
    const bool half = options.dtype == "bf16";
    if (half && job.framework == planner::Framework::kTombolo && !job.on_cuda())
      fail(Cause::kInvalidUsage,
           "--dtype bf16 with --device cpu: there it is how products are computed, and all that is kept or "
           "sent "
           "is fp32; plan without it, and give it to tombolo train");
    job.model.bytes_per_value = half ? 2 : 4;
  }
  if (options.moments == "bf16") job.moment_bytes = 2;
  if (!options.reserve.empty())
    job.reserve_bytes = static_cast<double>(parse_size(options.reserve, "--reserve"));
}

planner::Job job_of(const PlanOptions& options, const topology::ClusterFile& cluster) {
  planner::Job job = options.job;
  job.model = options.model.resolve();
  job.framework = *planner::framework_from_name(options.framework);
  const bool megatron = job.framework == planner::Framework::kMegatron;
  job.tensor = options.tensor > 0 || megatron ? options.tensor : 1;
  set_device(options, cluster, job);
  job.compute = planner::library_profiles(planner::framework_name(job.framework));
  return job;
}

/// What is recomputed, where that is fixed: by the user, or by times that were measured with it.
std::optional<planner::Recompute> fixed_recompute(const PlanOptions& options, const planner::Job& job) {
  if (!options.recompute.empty()) return planner::recompute_from_name(options.recompute);
  if (job.profile && job.profile->recompute != planner::Recompute::kNone) return job.profile->recompute;
  return std::nullopt;
}

bool states_memory(const topology::ClusterFile& cluster) {
  return std::ranges::any_of(cluster.hosts, [](const auto& host) {
    return std::ranges::any_of(host.devices, [](const auto& device) { return device.memory_bytes > 0; });
  });
}

/// Sets the choices that the search may vary: those that the framework offers and the user left open.
void set_choices(const PlanOptions& options, const topology::ClusterFile& cluster, const planner::Job& job,
                 planner::PlanOptions& plan_options) {
  using planner::Schedule;
  const bool megatron = job.framework == planner::Framework::kMegatron;
  const auto recompute = fixed_recompute(options, job);
  for (planner::Saving saving : planner::savings_of(job)) {
    if (recompute) saving.recompute = *recompute;
    if (options.shard_optimizer)
      saving.sharding = *options.shard_optimizer ? planner::Sharding::kOptimizer : planner::Sharding::kNone;
    auto& savings = plan_options.savings;
    if (std::ranges::find(savings, saving) == savings.end()) savings.push_back(saving);
    // Where no memory can be short, nothing is saved.
    if (!megatron && !states_memory(cluster)) break;
  }
  auto& schedules = plan_options.schedules;
  const auto interleave = [&] {
    for (const int chunks : options.chunks > 0 ? std::vector{options.chunks} : std::vector{2, 4})
      schedules.emplace_back(Schedule::kInterleaved, chunks);
  };
  if (options.schedule == "interleaved") {
    interleave();
  } else if (!options.schedule.empty()) {
    schedules = {{*planner::schedule_from_name(options.schedule), std::max(1, options.chunks)}};
  } else {
    if (options.chunks <= 1) schedules = {{Schedule::kOneForwardOneBackward, 1}};
    if (options.chunks > 1 || (megatron && options.chunks == 0)) interleave();
  }
}

/// One line that compares the plan with that of another strategy under the same routing.
std::string comparison(const topology::ClusterFile& cluster, const planner::Job& job,
                       planner::PlanOptions options, double step_seconds) {
  const bool default_order = options.strategy == "megatron";
  options.strategy = default_order ? "holmes" : "megatron";
  options.may_leave_out = false;  // these two give every rank a place
  const std::string name = default_order ? "holmes" : "megatron (the default order)";
  try {
    const double other = planner::make_plan(cluster, job, options).prediction.step_seconds;
    if (other < step_seconds)
      return fmt::format("Strategy {} is predicted to be faster here: {} per step, {:.2f}x. Try it.\n", name,
                         format_seconds(other), step_seconds / other);
    return fmt::format("For comparison, strategy {}: {} per step; this plan is {:.2f}x faster.\n", name,
                       format_seconds(other), other / step_seconds);
  } catch (const Error& error) {
    return fmt::format("For comparison, strategy {} has no plan: {}\n", name, error.what());
  }
}

int run_plan(const PlanOptions& options) {
  auto cluster = load_cluster(options.cluster);
  planner::Job job = job_of(options, cluster);
  planner::PlanOptions plan_options;
  plan_options.strategy = options.strategy;
  plan_options.routing = options.routing;
  plan_options.alpha = options.alpha;
  plan_options.may_leave_out = options.may_leave_out;
  if (!options.order.empty() || options.ranks > 0) {
    int ranks = options.ranks;
    if (ranks == 0)
      for (const auto& host : cluster.hosts) ranks += static_cast<int>(host.devices.size());
    plan_options.rank_hosts = map_ranks(options.order, cluster.hosts, ranks);
  }
  if (!options.profile.empty()) {
    refuse_speeds(options.what_if);
    job.profile = load_profile(options.profile, job.model, plan_options.rank_hosts, cluster);
  }
  set_choices(options, cluster, job, plan_options);
  planner::Plan plan;
  std::string changes;
  Json changes_json;
  if (options.running.empty()) {
    plan = planner::make_plan(cluster, job, plan_options);
  } else {
    planner::Plan running = planner::Plan::load(options.running);
    running.job.profile = job.profile;
    running.job.compute = job.compute;
    planner::Replan next = planner::replan(cluster, running, job, plan_options, options.steps_left);
    changes = describe_replan(next, options.steps_left) + '\n';
    changes_json = replan_json(next);
    plan = std::move(next.plan);
  }
  if (!options.what_if.empty()) {
    const auto scenarios = plan_scenarios(options.what_if, plan, cluster, job, plan_options);
    std::cout << (options.json ? scenarios_json(plan, scenarios).dump(1) + '\n'
                               : describe_scenarios(plan, scenarios));
    return kExitOk;
  }
  if (job.profile) note_profile(options.profile, cluster, plan);
  if (!options.output.empty()) plan.save(options.output);
  if (!options.report.empty())
    write_text_file(options.report,
                    plan_page(plan, cluster, planner::simulate(plan, cluster),
                              comparison(cluster, job, plan_options, plan.prediction.step_seconds)));
  if (const auto launcher = planner::launcher_from_name(options.emit)) {
    const std::string path = options.cluster.empty() ? topology::kClusterParameter.text() : options.cluster;
    std::cout << planner::emit(*launcher, plan, cluster, std::filesystem::absolute(path).string());
  } else if (options.json) {
    std::cout << (changes_json.is_null() ? plan.to_json() : changes_json).dump(1) << '\n';
  } else {
    std::cout << changes << describe_plan(plan, cluster, planner::simulate(plan, cluster)) << '\n'
              << comparison(cluster, job, plan_options, plan.prediction.step_seconds);
  }
  if (!options.report.empty()) std::cerr << "report written to " << options.report << '\n';
  if (!options.output.empty()) std::cerr << "plan written to " << options.output << '\n';
  return kExitOk;
}

void add_count(CLI::App& app, const char* flag, int& value, const char* text) {
  app.add_option(flag, value, text)->check(above_zero);
}

/// What is trained, and how it is divided among ranks.
void add_job_options(CLI::App& app, PlanOptions& options) {
  app.add_option("--profile", options.profile,
                 "Measured layer times (tombolo profile, docs/planning.md) in place of FLOPs over FLOP/s")
      ->type_name("FILE");
  app.add_option("--batch", options.job.global_batch, "Rows per step, over all replicas")
      ->required()
      ->check(above_zero);
  add_count(app, "--micro-batch", options.job.micro_batch, "Rows per micro-batch; default: chosen");
  add_count(app, "--pipeline", options.job.pipeline, "Pipeline stages; default: chosen");
  add_count(app, "--data", options.job.data, "Replicas; default: chosen");
  app.add_option("--reserve", options.reserve,
                 "Memory of each GPU that no plan may use, as 4G; default: 1 GiB and 3.9 % of it, or what a "
                 "profile says")
      ->type_name("SIZE");
}

/// Who trains, and what there is a choice of then.
void add_framework_options(CLI::App& app, PlanOptions& options) {
  app.add_option("--framework", options.framework,
                 "Who trains: tombolo (default), the bundled trainer, or megatron")
      ->check(CLI::IsMember({"tombolo", "megatron"}));
  add_count(app, "--tensor", options.tensor,
            "megatron: ranks that share each layer; default: chosen, inside of hosts");
  app.add_option(
         "--schedule", options.schedule,
         "megatron: 1f1b, gpipe, interleaved or zero-bubble-h1; default: 1f1b or interleaved, as is faster")
      ->check(CLI::IsMember({"1f1b", "gpipe", "interleaved", "zero-bubble-h1"}));
  add_count(app, "--chunks", options.chunks,
            "megatron: model chunks per stage when interleaved; default: 2 or 4");
  app.add_option(
         "--device", options.device,
         "tombolo: cpu or cuda, whose memory is counted and on which it will train; default: cuda where "
         "the cluster file has GPUs alone")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--dtype", options.dtype,
                 "fp32 or bf16: bytes of activations and of the parameters that products read; default: the "
                 "model's")
      ->check(CLI::IsMember({"fp32", "bf16"}));
  app.add_option("--moments", options.moments,
                 "tombolo on cuda: fp32 (default) or bf16, in which the optimizer's moments are kept")
      ->check(CLI::IsMember({"fp32", "bf16"}));
  app.add_option("--recompute", options.recompute,
                 "none, selective or full; default: the least with which a layout fits")
      ->check(CLI::IsMember({"none", "selective", "full"}));
  app.add_flag("--sequence-parallel", options.job.sequence_parallel,
               "megatron: divide along the sequence what ranks that share a layer would hold alike");
  app.add_flag("--shard-optimizer,!--no-shard-optimizer", options.shard_optimizer,
               "megatron: each replica keeps its share of the optimizer's state, or all of it; default: "
               "all where that fits");
}

/// How the plan is found, for which ranks.
void add_search_options(CLI::App& app, PlanOptions& options) {
  const auto names = planner::strategy_names();
  app.add_option("--strategy", options.strategy,
                 fmt::format("{}; default: {}", planner::alternatives(names), options.strategy))
      ->check(CLI::IsMember(std::vector<std::string>(names.begin(), names.end())));
  app.add_option("--routing", options.routing,
                 "per-peer (default): the best NICs of each pair; shared: the kind that all ranks share")
      ->check(CLI::IsMember({"per-peer", "shared"}));
  app.add_option("--order", options.order,
                 "Launcher's rank order: block (default), interleaved, or hosts with commas, one per rank");
  add_count(app, "-n,--ranks", options.ranks, "Ranks; default: one per device of the cluster file");
  app.add_flag(
      "--may-leave-out", options.may_leave_out,
      fmt::format(
          "{}: leave devices idle where a step is shorter without them; the plan's ranks are then those of "
          "the others",
          fmt::join(planner::strategy_names({&planner::StrategyCapabilities::leaves_devices_out}), ", ")));
  app.add_option("--alpha", options.alpha, "holmes: favour faster clusters by a little more than their share")
      ->check(above_zero);
}

/// What is asked instead of a plan, or beside it. Returns the option that only asks.
CLI::Option* add_change_options(CLI::App& app, PlanOptions& options) {
  auto* what_if = app.add_option("--what-if", options.what_if,
                                 "Instead of the plan, what it would be if the cluster changed; repeat for "
                                 "several. Changes, with "
                                 "\";\" "
                                 "between them: \"lose NAME\", \"link FROM TO RATE [LATENCY]\", \"speed NAME "
                                 "FACTOR\"; a NAME is a "
                                 "host or a cluster")
                      ->type_name("CHANGES")
                      ->allow_extra_args(false);
  auto* running =
      app.add_option("--running", options.running,
                     "Plan file that runs now: keep it, or say what moves to the new one and after how many "
                     "steps that pays");
  app.add_option("--steps-left", options.steps_left, "With --running: steps that the new plan has to pay in")
      ->capture_default_str()
      ->check(above_zero)
      ->needs(running);
  return what_if;
}

/// What is written and printed. All but --json excludes `what_if`, which only shows plans.
void add_output_options(CLI::App& app, PlanOptions& options, CLI::Option* what_if) {
  app.add_option("-o,--output", options.output, "Write the plan file (docs/plan-file.md) here")
      ->excludes(what_if);
  app.add_option("--report", options.report,
                 "Write a page here (HTML): why this plan, its timeline, memory per rank, traffic per link")
      ->type_name("FILE")
      ->excludes(what_if);
  auto* json = app.add_flag(
      "--json", options.json,
      "Print the plan file instead of a report; with --running an object of it, as \"plan\", and what moves");
  app.add_option(
         "--emit", options.emit,
         "Print a script that starts the plan instead of a report: megatron, torchrun, deepspeed, slurm "
         "or mpi")
      ->check(CLI::IsMember({"megatron", "torchrun", "deepspeed", "slurm", "mpi"}))
      ->excludes(json)
      ->excludes(what_if);
}

}  // namespace

void add_plan(CommandLine& tombolo) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App& app = tombolo.add("plan", "Decide which rank holds which layers, and predict the step",
                              fmt::format("{}{}\n{}", kWhatItDoes, strategies_help(), kExamples),
                              [options] { return run_plan(*options); });
  // In the order in which the help lists them.
  app.add_option("--cluster", options->cluster,
                 "Cluster file (docs/cluster-file.md); default: TOMBOLO_CLUSTER");
  options->model.add_to(app);
  add_job_options(app, *options);
  add_framework_options(app, *options);
  add_search_options(app, *options);
  add_output_options(app, *options, add_change_options(app, *options));
}

}  // namespace tombolo::tools
