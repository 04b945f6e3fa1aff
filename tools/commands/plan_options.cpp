#include "tools/commands/plan_options.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/units.h"
#include "planner/launch/launch.h"
#include "planner/strategies/strategy.h"
#include "tools/cli/validators.h"
#include "tools/launch/launcher.h"

namespace tombolo::tools {
namespace {

/// Whether all devices of the ranks' hosts are GPUs.
bool has_only_gpus(const PlanOptions& options, const topology::ClusterFile& cluster) {
  const std::vector<std::string> ranks = rank_hosts_of(options, cluster);
  const std::set<std::string_view> hosts(ranks.begin(), ranks.end());
  bool any = false;
  for (const auto& host : cluster.hosts)
    for (const auto& device : host.devices) {
      if (!hosts.empty() && !hosts.contains(host.name)) continue;
      if (device.kind != topology::DeviceKind::kGpu) return false;
      any = true;
    }
  return any;
}

/// On what the bundled trainer will compute, and in which precision.
void set_device(const PlanOptions& options, const topology::ClusterFile& cluster, planner::Job& job) {
  if (job.framework == planner::Framework::kTombolo) {
    const bool gpus = options.device.empty() ? has_only_gpus(options, cluster) : options.device == "cuda";
    if (gpus) job.device = planner::TrainerDevice::kCuda;
  } else if (!options.device.empty() || !options.moments.empty()) {
    fail(Cause::kInvalidUsage, "--device and --moments are the bundled trainer's (--framework tombolo)");
  }
  if (!options.dtype.empty()) {
    if (options.dtype == "bf16" && job.framework == planner::Framework::kTombolo && !job.on_cuda())
      fail(Cause::kInvalidUsage,
           "--dtype bf16 with --device cpu: there it is how products are computed, and all that is kept or "
           "sent "
           "is fp32; plan without it, and give it to tombolo train");
    job.model.bytes_per_value = options.dtype == "fp32" ? 4 : 2;
    if (const auto precision = planner::precision_from_name(options.dtype);
        precision && planner::is_fp8(*precision))
      job.precision = precision;
  }
  if (options.moments == "bf16") job.moment_bytes = 2;
  if (!options.reserve.empty())
    job.reserve_bytes = static_cast<double>(parse_size(options.reserve, "--reserve"));
}

struct ChosenFramework {
  planner::Framework framework = planner::Framework::kTombolo;
  std::string why;  // for the plan's notes; empty where the user named it
};

/// From so many parameters on a model of GPT-2's shape is taken to be Megatron-LM's where it is trained on
/// GPUs: the bundled trainer has whole layers and a whole optimizer on each rank, 16 bytes and more per
/// parameter.
constexpr double kLargeModel = 1e9;

/// The framework that the user named, or whose launch script is wanted, or that has what the options ask for,
/// or that trains such models.
ChosenFramework framework_of(const PlanOptions& options, const planner::Model& model,
                             const topology::ClusterFile& cluster) {
  using planner::Framework;
  if (!options.framework.empty()) return {*planner::framework_from_name(options.framework), ""};
  const auto because = [&](Framework framework, std::string_view why) {
    return ChosenFramework{framework, fmt::format("for {}, {}; --framework takes another",
                                                  planner::traits(framework).title, why)};
  };
  if (const auto launched = planner::framework_from_name(options.emit))
    return because(*launched, "whose launch script is wanted");
  const Framework by_model = planner::framework_for(model);
  if (by_model != Framework::kTombolo)
    return because(by_model, "since the bundled trainer has GPT-2's shape alone");
  const bool beyond =
      options.tensor > 1 || options.chunks > 1 || (!options.schedule.empty() && options.schedule != "1f1b") ||
      options.shard_optimizer.value_or(false) || (!options.sharding.empty() && options.sharding != "none") ||
      options.sequence_parallel.value_or(false) || options.overlap_tensor.value_or(false) ||
      options.recompute_layers || options.dtype.starts_with("fp8") || options.context_parallel > 1 ||
      options.expert_parallel > 1 || options.unfused_attention;
  if (beyond || !options.software.empty())
    return because(Framework::kMegatron, "since the bundled trainer lacks what is asked for");
  const bool asks_for_device =
      !options.device.empty() || !options.moments.empty() || !options.profile.empty();
  if (!asks_for_device && has_only_gpus(options, cluster) &&
      static_cast<double>(model.parameters()) >= kLargeModel)
    return because(
        Framework::kMegatron,
        "since the bundled trainer, which could train this model, has whole layers on each rank and does "
        "not share the optimizer's state");
  return because(by_model, "which trains models of GPT-2's shape");
}

/// The fields of `--model` without which a model of GPT-2's shape would be like GPT-2, but for its size;
/// empty where it has another shape.
std::string fields_beside_gpt2(planner::Model model) {
  std::string fields;
  for (const planner::PeculiarityTraits& one : planner::all_peculiarities())
    if (model.has(one.peculiarity)) fields.append(fmt::format(",{}=no", one.name));
  if (model.windowed()) fields.append(",window=no");
  model.peculiarities = {};
  model.window = 0;
  return planner::framework_for(model) == planner::Framework::kTombolo ? fields : std::string();
}

/// The bundled trainer's layers are GPT-2's; a plan of others for it could not be run.
void refuse_foreign_model(const planner::Job& job) {
  if (job.framework != planner::Framework::kTombolo ||
      planner::framework_for(job.model) == planner::Framework::kTombolo)
    return;
  if (const std::string fields = fields_beside_gpt2(job.model); !fields.empty())
    fail(Cause::kInvalidUsage,
         "the bundled trainer (--framework tombolo) trains layers as GPT-2 has them; take --model ...{}, or "
         "--framework megatron",
         fields);
  fail(Cause::kInvalidUsage,
       "the bundled trainer (--framework tombolo) trains models of GPT-2's shape alone (learned positions, "
       "biases, tied embeddings, an MLP of 4 widths without a gate, as many heads of keys as of queries, "
       "which "
       "divide the width and have no norms, no experts, no windows), and {} is another; take "
       "--framework megatron",
       job.model.name.empty() ? "this one" : job.model.name);
}

/// What is recomputed, where that is fixed: by the user, or by times that were measured with it.
std::optional<planner::Recompute> fixed_recompute(const PlanOptions& options, const planner::Job& job) {
  if (options.recompute_layers && !options.recompute.empty() && options.recompute != "full")
    fail(Cause::kInvalidUsage,
         "--recompute-layers {} counts whole layers, which --recompute {} does not compute again",
         *options.recompute_layers, options.recompute);
  if (!options.recompute.empty()) return planner::recompute_from_name(options.recompute);
  if (job.profile && job.profile->recompute != planner::Recompute::kNone) return job.profile->recompute;
  return std::nullopt;
}

void add_count(CLI::App& app, const char* flag, int& value, const char* text) {
  app.add_option(flag, value, text)->check(above_zero);
}

/// A flag and its opposite. Where neither is given the value stays absent, which CLI11's own flags for an
/// optional do not do.
CLI::Option* add_choice(CLI::App& app, const char* flags, std::optional<bool>& value, const char* text) {
  return app.add_flag_function(
      flags, [&value](std::int64_t count) { value = count > 0; }, text);
}

/// What is trained, and how it is divided among ranks.
void add_job_options(CLI::App& app, PlanOptions& options) {
  app.add_option("--profile", options.profile,
                 "Measured layer times (tombolo profile, docs/planning.md) in place of FLOPs over FLOP/s")
      ->type_name("FILE");
  app.add_option("--batch", options.job.global_batch,
                 "Rows per step, over all replicas; with --running default: that plan's")
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
  app.add_option(
         "--framework", options.framework,
         "Who trains: tombolo (the bundled trainer), megatron, deepspeed, torchtitan or nemo. Only what "
         "it can express is planned. Default: tombolo for models of GPT-2's shape, on GPUs of less than 1 "
         "billion "
         "parameters; else megatron")
      ->check(CLI::IsMember({"tombolo", "megatron", "deepspeed", "torchtitan", "nemo"}));
  app.add_option(
         "--software", options.software,
         "Whose measured constants of layers count: a framework, or a release that library/compute.json "
         "has records of, as nanotron; default: the framework")
      ->type_name("NAME");
  add_count(app, "--tensor", options.tensor,
            "Ranks that share each layer; default: chosen, inside of hosts, where the framework can");
  add_count(app, "--context-parallel", options.context_parallel,
            "Replicas that take the same rows and divide their tokens; default: as few as a plan fits with, "
            "or as make a step shorter than computing layers again");
  add_count(
      app, "--expert-parallel", options.expert_parallel,
      "Replicas that divide the experts of each layer that is a mixture, and send each other their tokens; "
      "default: chosen, where the framework can");
  app.add_option(
         "--context-exchange", options.context_exchange,
         "How they exchange what attention needs: ring (default), which passes keys and values round, or "
         "all-to-all, which exchanges tokens for heads")
      ->check(CLI::IsMember({"ring", "all-to-all"}));
  app.add_option("--schedule", options.schedule,
                 "1f1b, gpipe (torchtitan), interleaved (megatron, nemo, torchtitan), "
                 "interleaved-zero-bubble (torchtitan) "
                 "or zero-bubble-h1, which no framework has yet; default: of those that the framework has "
                 "the fastest")
      ->check(CLI::IsMember({"1f1b", "gpipe", "interleaved", "interleaved-zero-bubble", "zero-bubble-h1"}));
  add_count(app, "--chunks", options.chunks, "Model chunks per stage when interleaved; default: 2 or 4");
  app.add_option(
         "--device", options.device,
         "tombolo: cpu or cuda, whose memory is counted and on which it will train; default: cuda where "
         "the cluster file has GPUs alone")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option(
         "--dtype", options.dtype,
         "fp32 or bf16: bytes of activations and of the parameters that products read; fp8-hybrid or "
         "fp8-e4m3: as bf16, and layers' products in fp8, where the framework can; default: the model's")
      ->check(CLI::IsMember({"fp32", "bf16", "fp8-hybrid", "fp8-e4m3"}));
  app.add_option("--moments", options.moments,
                 "tombolo on cuda: fp32 (default) or bf16, in which the optimizer's moments are kept")
      ->check(CLI::IsMember({"fp32", "bf16"}));
  app.add_option("--recompute", options.recompute,
                 "none, selective or full; default: the least with which a layout fits, and of whole layers "
                 "only as many as memory needs, where the framework can (megatron, nemo)")
      ->check(CLI::IsMember({"none", "selective", "full"}));
  app.add_option(
         "--recompute-layers", options.recompute_layers,
         "Compute whole layers again, but only the first so many of each stage, or of each of its chunks: "
         "megatron, nemo. Default: as few as memory needs; all with --recompute full")
      ->check(above_zero);
  add_choice(app, "--sequence-parallel,!--no-sequence-parallel", options.sequence_parallel,
             "Divide along the sequence what ranks that share a layer would hold alike; default: where the "
             "framework can");
  app.add_flag("--unfused-attention", options.unfused_attention,
               "Attention without a fused kernel (FlashAttention), whose weights are in memory: megatron and "
               "deepspeed");
  add_choice(app, "--overlap-tensor,!--no-overlap-tensor", options.overlap_tensor,
             "Exchange beside matrix products what ranks that share a layer exchange: megatron and nemo by "
             "Transformer "
             "Engine, with --sequence-parallel; torchtitan by compiled layers. Default: megatron and nemo, "
             "where all "
             "GPUs are Hopper or later and joined by NVLink");
  add_choice(app, "--overlap-parameters,!--no-overlap-parameters", options.overlap_parameters,
             "Gather what a sharded optimizer updated beside the next forward pass; default: where the "
             "framework can");
  auto* sharding =
      app.add_option(
             "--sharding", options.sharding,
             "none, optimizer, gradients or parameters: what replicas divide among themselves, each with "
             "what stands before it (ZeRO-1, 2, 3); default: of those that the framework has the fastest")
          ->check(CLI::IsMember({"none", "optimizer", "gradients", "parameters"}));
  add_choice(app, "--shard-optimizer,!--no-shard-optimizer", options.shard_optimizer,
             "The same as --sharding optimizer, or none")
      ->excludes(sharding);
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
  app.add_option("--within", options.within_percent,
                 "Plans so many per cent slower than the fastest count as equally fast; of these the one is "
                 "taken that crosses slow links least, leaves memory free and is simplest. 0: the fastest")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 50.0));
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
  auto* running = app.add_option(
      "--running", options.running,
      "Plan file that runs now: keep it, or say what moves to the new one and after how many "
      "steps that pays. Model, batch and framework are that plan's, as are precision, software "
      "(where all GPUs have a record of it), unfused attention, device and moments");
  app.add_option(
         "--measured", options.measured,
         "With --running: what `tombolo train --measured` wrote of it, or its log by Megatron-LM, NeMo, "
         "torchtitan or DeepSpeed; speeds are corrected by that first")
      ->type_name("FILE")
      ->needs(running);
  app.add_option("--steps-left", options.steps_left, "With --running: steps that the new plan has to pay in")
      ->capture_default_str()
      ->check(above_zero)
      ->needs(running);
  return what_if;
}

/// What is written and printed. All but --json and --report excludes `what_if`, which only shows plans.
void add_output_options(CLI::App& app, PlanOptions& options, CLI::Option* what_if) {
  app.add_option("-o,--output", options.output, "Write the plan file (docs/plan-file.md) here")
      ->excludes(what_if);
  app.add_option("--report", options.report,
                 "Write a page here (HTML): why this plan, the next best, what changes would bring (with "
                 "--what-if these too), its timeline, memory per rank, traffic per link")
      ->type_name("FILE");
  auto* json = app.add_flag(
      "--json", options.json,
      "Print the plan file instead of a report; with --running an object of it, as \"plan\", and what moves");
  const std::vector<std::string_view> launchers(planner::launcher_names().begin(),
                                                planner::launcher_names().end());
  app.add_option("--emit", options.emit,
                 fmt::format("Print a script that starts the plan instead of a report: {}",
                             planner::alternatives(launchers)))
      ->check(CLI::IsMember(std::vector<std::string>(launchers.begin(), launchers.end())))
      ->excludes(json)
      ->excludes(what_if);
}

}  // namespace

std::vector<std::string> rank_hosts_of(const PlanOptions& options, const topology::ClusterFile& cluster) {
  if (options.order.empty() && options.ranks == 0) return {};
  int ranks = options.ranks;
  if (ranks == 0)
    for (const auto& host : cluster.hosts) ranks += static_cast<int>(host.devices.size());
  return map_ranks(options.order, cluster.hosts, ranks);
}

std::string running_software_left(const PlanOptions& options, const topology::ClusterFile& cluster) {
  if (!options.software.empty() || !options.running_job || options.running_job->software.empty()) return {};
  const std::string& software = options.running_job->software;
  const auto records = planner::ComputeLibrary::load().of(software);
  for (const auto& host : cluster.hosts)
    for (const auto& device : host.devices)
      if (device.kind == topology::DeviceKind::kGpu && (!records || records->find(device.name) == nullptr))
        return fmt::format(
            "the running plan was made with the constants of {}, of which the library has none for {} "
            "of host {}: those of {} count in their place",
            software, device.name, host.name, planner::traits(options.running_job->framework).title);
  return {};
}

planner::Job job_of(const PlanOptions& options, const topology::ClusterFile& cluster) {
  planner::Job job = options.job;
  const bool as_running = options.running_job && !options.model.given();
  job.model = as_running ? options.running_job->model : options.model.resolve();
  if (options.running_job && options.dtype.empty()) {
    job.model.bytes_per_value = options.running_job->model.bytes_per_value;
    job.precision = options.running_job->precision;
  }
  job.framework = framework_of(options, job.model, cluster).framework;
  const bool may_share = planner::traits(job.framework).tensor_parallel;
  job.tensor = options.tensor > 0 || may_share ? options.tensor : 1;
  job.context_parallel = options.context_parallel;
  if (!planner::traits(job.framework).context_parallel && job.context_parallel == 0) job.context_parallel = 1;
  job.expert_parallel = options.expert_parallel;
  if (job.expert_parallel == 0 && (job.model.experts == 0 || !planner::traits(job.framework).expert_parallel))
    job.expert_parallel = 1;
  if (const auto exchange = planner::context_exchange_from_name(options.context_exchange))
    job.context_exchange = *exchange;
  job.fused_attention = !options.unfused_attention;
  set_device(options, cluster, job);
  refuse_foreign_model(job);
  job.software = options.software;
  if (job.software.empty() && options.running_job && running_software_left(options, cluster).empty())
    job.software = options.running_job->software;
  job.compute = planner::library_profiles(planner::framework_name(job.framework), job.software);
  if (!job.software.empty() && !job.compute)
    fail(Cause::kInvalidUsage,
         "--software names whose measured constants count, and the bundled trainer (--framework tombolo) has "
         "none; give it --profile");
  return job;
}

planner::FixedChoices fixed_choices(const PlanOptions& options, const planner::Job& job) {
  planner::FixedChoices fixed;
  fixed.recompute = fixed_recompute(options, job);
  fixed.sharding = planner::sharding_from_name(options.sharding);
  if (options.shard_optimizer)
    fixed.sharding = *options.shard_optimizer ? planner::Sharding::kOptimizer : planner::Sharding::kNone;
  fixed.schedule = planner::schedule_from_name(options.schedule);
  fixed.chunks = options.chunks;
  fixed.sequence_parallel = options.sequence_parallel;
  fixed.overlap_tensor = options.overlap_tensor;
  fixed.recompute_layers = options.recompute_layers;
  if (options.recompute_layers) fixed.recompute = planner::Recompute::kFull;
  if (!fixed.recompute_layers && fixed.recompute) fixed.recompute_layers = 0;
  fixed.overlap_parameters = options.overlap_parameters;
  return fixed;
}

std::string guessed_framework(const PlanOptions& options, const planner::Model& model,
                              const topology::ClusterFile& cluster) {
  return framework_of(options, model, cluster).why;
}

void add_plan_options(CLI::App& app, PlanOptions& given) {
  PlanOptions* options = &given;
  // In the order in which the help lists them.
  app.add_option("--cluster", options->cluster,
                 "Cluster file (docs/cluster-file.md); default: TOMBOLO_CLUSTER");
  app.add_flag(
      "--here", options->here,
      "Under torchrun, srun, mpirun or tombolo run: measure this job first (tombolo probe, and for the "
      "bundled "
      "trainer tombolo profile), and write that where --cluster and --profile say; default cluster.json, "
      "layers.json");
  options->model.add_to(app);
  add_job_options(app, *options);
  add_framework_options(app, *options);
  add_search_options(app, *options);
  add_output_options(app, *options, add_change_options(app, *options));
}

}  // namespace tombolo::tools
