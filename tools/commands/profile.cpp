// tombolo profile: how long a model's layers take here.
#include "planner/model/profile.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/units.h"
#include "collectives/rendezvous/bootstrap.h"
#include "tools/cli/command.h"
#include "tools/cli/model_options.h"
#include "tools/cli/progress_bar.h"
#include "tools/cli/table.h"
#include "tools/cli/validators.h"
#include "tools/launch/profile_ranks.h"
#include "trainer/model/model.h"
#include "trainer/run/back_end.h"

namespace tombolo::tools {
namespace {

constexpr const char* kProfileHelp =
    "Times the parts of a model with the bundled trainer's own kernels, on the CPU or on a GPU (--device): "
    "forward and backward pass of one "
    "layer,\n"
    "of the embedding and of the head (final norm, output projection, loss), the optimizer's update of each, "
    "and\n"
    "the bytes that each keeps for its backward pass, for every micro-batch given. A layer's time is what a\n"
    "planner otherwise guesses from FLOPs; `tombolo plan --profile FILE` goes by it.\n"
    "\n"
    "Alone it measures this machine, -n ranks at once, which is how they will train; of GPUs each rank takes "
    "that of\n"
    "its number. Times on a GPU are those until it has done the work, by layer. Started by torchrun, "
    "srun,\n"
    "mpirun or tombolo run each host's ranks measure at once, and rank 0 writes the times of every device by "
    "its\n"
    "name in the cluster file. Hosts that share a processor (an emulation) take turns: the simulator shares "
    "it\n"
    "out itself. Plans may use micro-batches between those that were measured; give the smallest and the "
    "largest\n"
    "that you would take.\n"
    "\n"
    "Examples:\n"
    "  tombolo profile --layers 8 --width 128 --heads 4 --context 128 --micro-batches 1,2,4,8 -o "
    "layers.json\n"
    "  tombolo profile -n 2 --layers 8 --width 128 --heads 4 --context 128 -o layers.json\n"
    "  tombolo profile --device cuda --dtype bf16 --model gpt2-124m --micro-batches 1,4,16 -o layers.json\n"
    "  tombolo run --emulate holmes --quiet -- tombolo profile --model layers.model.json -o layers.json\n"
    "  srun -N 4 --ntasks-per-node 1 tombolo profile --model gpt2-124m -o layers.json";

struct ProfileCommand {
  ModelOptions model;
  std::vector<int> micro_batches{1, 2, 4};
  double seconds = 1;
  int ranks = 1;
  int threads = 1;
  trainer::DeviceChoice device = trainer::DeviceChoice::kCpu;
  std::optional<int> gpu;
  compute::Precision precision = compute::Precision::kFloat32, moments = compute::Precision::kFloat32;
  planner::Recompute recompute = planner::Recompute::kNone;
  std::optional<std::string> name;
  std::string out;
  bool json = false;
};

void print_times(const planner::Profile& profile) {
  Table table({"DEVICE", "PART", "ROWS", "FORWARD", "BACKWARD", "UPDATE", "KEEPS"});
  for (const auto& one : profile.measurements)
    table.add({one.device, one.kind, std::to_string(one.micro_batch), format_seconds(one.times.forward),
               format_seconds(one.times.backward), format_seconds(one.times.update),
               format_size(one.times.kept_bytes)});
  fmt::print("{}", table.text(terminal_width()));
}

/// Prints the FLOP/s that the layers attain, counted as the planner counts them. The difference from the
/// probe's matrix products is the error of an estimate by those.
void print_speed(const planner::Profile& profile) {
  for (const auto& one : profile.measurements) {
    if (one.kind != "layer") continue;
    const double flops = 3.0 * one.micro_batch * profile.model->layer_forward_flops();
    const double attained = flops / (one.times.forward + one.times.backward);
    std::string share;
    for (const auto& device : profile.devices)
      if (device.name == one.device && device.peak_flops_per_second > 0)
        share = fmt::format(", {:.1f} % of its data sheet's", 100 * attained / device.peak_flops_per_second);
    fmt::print("{}: a layer's passes over {} rows attain {:.3g} GFLOP/s{}\n", one.device, one.micro_batch,
               attained / 1e9, share);
  }
}

int run_profile(const ProfileCommand& options) {
  ProfileRequest request;
  request.model = options.model.resolve();
  trainer::to_shape(request.model);  // refuses what the trainer cannot train
  const std::set<int> rows(options.micro_batches.begin(), options.micro_batches.end());
  request.micro_batches.assign(rows.begin(), rows.end());
  request.seconds = options.seconds;
  request.threads = options.threads;
  request.device = options.device;
  request.gpu = options.gpu;
  request.precision = options.precision;
  request.moments = options.moments;
  request.recompute = options.recompute;
  const auto identity = collectives::Identity::from_environment();
  const bool rank_zero = identity.rank == 0;
  if (rank_zero && can_draw_progress())
    request.progress = [](int done, int total) { draw_progress("profiling", done, total); };
  std::vector<DeviceTimes> all;
  if (identity.size > 1) {
    if (options.ranks > 1)
      fail(Cause::kInvalidUsage, "-n {}: the launcher has started {} ranks already", options.ranks,
           identity.size);
    all = profile_job(request, options.name);
  } else {
    all.push_back(profile_here(request, options.ranks, options.name));
  }
  if (!rank_zero) return kExitOk;
  std::vector<std::string> warnings;
  const planner::Profile profile = merge_times(request, all, warnings);
  for (const std::string& each : warnings) fmt::print(stderr, "tombolo profile: warning: {}\n", each);
  if (!options.out.empty()) write_json_file(options.out, profile.to_json());
  if (options.json) {
    fmt::print("{}\n", profile.to_json().dump(1));
  } else {
    for (const auto& device : profile.devices) fmt::print("{}: {}\n", device.name, device.description);
    print_times(profile);
    print_speed(profile);
    if (!options.out.empty()) fmt::print("written: {}\n", options.out);
  }
  return kExitOk;
}

}  // namespace

void add_profile(CommandLine& tombolo) {
  auto options = std::make_shared<ProfileCommand>();
  CLI::App& app = tombolo.add("profile", "Measure how long a model's layers take here", kProfileHelp,
                              [options] { return run_profile(*options); });
  options->model.add_to(app);
  app.add_option("--micro-batches", options->micro_batches, "Rows, with commas")
      ->delimiter(',')
      ->check(above_zero)
      ->capture_default_str();
  app.add_option("--seconds", options->seconds, "Time per micro-batch")
      ->check(CLI::Range(0.01, 600.0))
      ->capture_default_str();
  app.add_option("-n,--ranks", options->ranks, "Ranks that compute at once on this machine")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--threads", options->threads, "Threads per rank for matrix products, as in training")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--device",
         [options](const std::string& text) { options->device = *trainer::device_choice_from_name(text); },
         "What computes: cpu, cuda (a GPU), or auto: a GPU where one works, else the CPU [cpu]")
      ->check(CLI::IsMember({"cpu", "cuda", "auto"}));
  app.add_option("--gpu", options->gpu,
                 "Number of the GPU among those that CUDA shows [the rank's number on its host]")
      ->check(CLI::NonNegativeNumber);
  const auto add_precision = [&](const char* flag, compute::Precision& precision, const char* help) {
    app.add_option_function<std::string>(
           flag,
           [options, &precision](const std::string& text) {
             precision = *compute::precision_from_name(text);
           },
           help)
        ->check(CLI::IsMember({"fp32", "bf16"}));
  };
  add_precision("--dtype", options->precision, "fp32 or bf16, as tombolo train has it [fp32]");
  add_precision("--moments", options->moments, "Of the optimizer: fp32; or bf16, on a GPU [fp32]");
  app.add_option_function<std::string>(
         "--recompute",
         [options](const std::string& text) { options->recompute = *planner::recompute_from_name(text); },
         "What backward computes again: none, selective or full; plans by these times then do the same "
         "[none]")
      ->check(CLI::IsMember({"none", "selective", "full"}));
  app.add_option("--name", options->name,
                 "Name of what is measured [as the cluster file names it, else cpu or the GPU's own]");
  app.add_option("-o,--out", options->out, "Write the profile (docs/planning.md) here")->type_name("FILE");
  app.add_flag("--json", options->json, "Print the profile instead of a table");
}

}  // namespace tombolo::tools
