// tombolo train: a GPT on text or tokens, by one rank or many.
#include "trainer/run/train.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/units.h"
#include "collectives/engine/communicator.h"
#include "collectives/rendezvous/bootstrap.h"
#include "compute/product_speed.h"
#include "tools/cli/command.h"
#include "tools/cli/json_config.h"
#include "tools/process/stop_request.h"
#include "trainer/pipeline/divergence.h"
#include "trainer/report/progress.h"
#include "trainer/run/back_end.h"
#include "trainer/run/device_peak.h"
#include "trainer/run/net_plugin_offer.h"
#include "trainer/run/placement_check.h"
#include "trainer/run/reduction_choice.h"

namespace tombolo::tools {
namespace {

constexpr const char* kTrainHelp =
    "Trains a GPT-2-shaped model, on the CPU or on a GPU, on the bytes of a file, on its text in GPT-2's "
    "tokens\n"
    "(--tokenizer), or on token files of llm.c's. Alone it is one process without any\n"
    "sockets; started by tombolo run, torchrun, srun or mpirun it is a pipeline of stages times replicas, "
    "laid out by\n"
    "a plan or by --pipeline and --replicas. Every layout sees the same rows in the same step and reports "
    "the same\n"
    "loss. With a plan, every rank must run on the host that the plan gives it.\n"
    "\n--init and --save are models alone, as llm.c or Hugging Face has them (tombolo export converts). "
    "--checkpoint keeps all that\n"
    "a run needs to go on: every rank writes its part while training continues, into a folder that all share "
    "or on\n"
    "its host's own disk. --resume auto, or a checkpoint's folder, goes on from there in any layout, to "
    "--steps in\n"
    "all. A checkpoint that cannot be written is a warning; the next one is tried when it is due.\n"
    "\nExamples:\n"
    "  tombolo train --data book.txt --steps 200 --sample 300\n"
    "  tombolo train --data book.txt --init model.bin --save model.bin --log steps.jsonl\n"
    "  tombolo train --data 'fineweb_train_*.bin' --validation fineweb_val.bin --validate-every 250 "
    "--init gpt2/model.safetensors\n"
    "  tombolo train --data book.txt --tokenizer vocab.bpe --shuffle 1 --lr-schedule cosine --warmup 100\n"
    "  tombolo run -n 4 -- tombolo train --data book.txt --layers 8 --pipeline 2 --replicas 2\n"
    "  tombolo train --data book.txt --steps 5000 --checkpoint run1 --every 500 --resume auto\n"
    "  tombolo train --config run.json --steps 1000\n"
    "  tombolo run -n 4 -- tombolo train --data book.txt --plan plan.json --steps 30 --measured run.json\n"
    "\nSIGINT, SIGTERM, SIGHUP and SIGUSR1 (Slurm: --signal=USR1@120) end the run after the step under way, "
    "with a\n"
    "checkpoint and --save; while sampling after the token under way. One of the first three that comes more "
    "than a\n"
    "second after the first ends the process at once.\n"
    "\nExit codes: 0 done, with a warning where a log, a trace or another file beside the model could not "
    "be\n"
    "written; 1 failed, or the last checkpoint could not be written; 2 bad options or files; 3 the loss is "
    "no\n"
    "longer a number; 130 interrupted.";

constexpr int kExitDiverged = 3;
constexpr int kExitInterrupted = 130;

/// One write per line, so that those of several ranks stay whole.
Log train_log() {
  return Log(LogLevel::kInfo, [](LogLevel level, std::string_view text) {
    const bool plain = level == LogLevel::kInfo;
    const std::string line = fmt::format("tombolo train: {}{}\n", plain ? "" : "warning: ", printable(text));
    [[maybe_unused]] const auto wrote = ::write(STDERR_FILENO, line.data(), line.size());
  });
}

struct TrainCommand {
  trainer::TrainOptions train;
  std::optional<trainer::DeviceChoice> device;  ///< the plan's; CPU
  std::optional<int> gpu;                       ///< the rank's number on its host
  trainer::ReductionChoice reduction = trainer::ReductionChoice::kAuto;
};

void print_start(const trainer::Job& job, const trainer::StageCompute& compute,
                 trainer::DeviceChoice device) {
  const trainer::StageMemory memory = compute.memory();
  const auto total = memory.parameters + memory.gradients + memory.optimizer + memory.activations;
  fmt::print("{}: {} parameters; {} stages x {} replicas, batch {}, micro-batch {}; {} on this rank\n",
             job.shape.text(), trainer::parameter_count(job.shape), job.parallel.pipeline(),
             job.parallel.replicas, job.parallel.global_batch, job.parallel.micro_batch, format_size(total));
  constexpr double kProductSeconds = 0.01;
  if (device == trainer::DeviceChoice::kCpu)
    fmt::print("matrix products: {}\n", compute::measure_products(kProductSeconds, job.precision).text());
  else
    fmt::print("{}\n", compute.describe());
  std::fflush(stdout);
}

/// Where the time went that ranks stood still, if it was worth a line.
void print_waits(const trainer::TrainResult& result) {
  constexpr double kLeast = 0.02;  // of the run's time
  constexpr std::size_t kMost = 5;
  std::string text;
  for (std::size_t at = 0; at < std::min(result.waits.size(), kMost); ++at) {
    const trainer::LinkWait& wait = result.waits[at];
    if (wait.seconds < kLeast * result.seconds) break;
    text += fmt::format("{} rank {} for rank {}: {:.0f} %", text.empty() ? "" : ",", wait.rank, wait.peer,
                        100 * wait.seconds / result.seconds);
  }
  if (!text.empty()) fmt::print("waited for transfers:{} of the time\n", text);
}

/// `print`, until standard output fails: a run outlasts the disk or the pipe that takes its progress.
template <typename Print>
auto while_it_can(Print print, Log log) {
  return [print = std::move(print), log = std::move(log), fine = true](const auto&... facts) mutable {
    if (!fine) return;
    try {
      print(facts...);
    } catch (const std::system_error& error) {
      fine = false;
      log.warning("progress: {}; training goes on without it", error.what());
    }
  };
}

void print_sample(int step, const std::string& text) {
  fmt::print("--- sample after step {} ---\n{}\n---\n", step + 1, text);
  std::fflush(stdout);
}

void check_plan(const planner::Plan& plan, const std::string& path, const collectives::Communicator& world,
                collectives::Routing routing) {
  const std::string warning = trainer::check_placement(plan, path, world.members(), routing);
  if (!warning.empty() && world.rank() == 0) fmt::print(stderr, "tombolo train: warning: {}\n", warning);
}

trainer::DeviceChoice wanted_device(const TrainCommand& command) {
  if (command.device) return *command.device;
  const bool planned = !command.train.plan.empty() && planner::Plan::load(command.train.plan).job.on_cuda();
  return planned ? trainer::DeviceChoice::kCuda : trainer::DeviceChoice::kCpu;
}

/// The options, with what was found to compute.
struct Prepared {
  trainer::TrainOptions options;
  trainer::ReductionWish wish;
  trainer::BackEnd back_end;
};

Prepared prepare(const TrainCommand& command, const collectives::Identity& identity) {
  Prepared made{command.train, {}, {}};
  trainer::TrainOptions& options = made.options;
  const trainer::DeviceChoice choice = wanted_device(command);
  const bool nccl_may_sum = command.reduction != trainer::ReductionChoice::kEngine && identity.size > 1;
  made.wish = {command.reduction, !options.traffic.empty() || !options.measured.empty(), {}};
  // The environment is changed before anything starts threads that may read it.
  if (nccl_may_sum && choice != trainer::DeviceChoice::kCpu) made.wish.plugin = trainer::offer_net_plugin();
  made.back_end = trainer::choose_back_end(choice, command.gpu.value_or(identity.local_rank), nccl_may_sum);
  trainer::check_reduction(command.reduction, made.back_end.device);
  if (made.back_end.device == trainer::DeviceChoice::kCpu) {
    // A plan for GPUs speaks of their precisions.
    if (!options.precision) options.precision = compute::Precision::kFloat32;
    if (!options.moments) options.moments = compute::Precision::kFloat32;
  }
  options.make_stage = options.sample.make_stage = made.back_end.make_stage;
  return made;
}

/// Collective: settles in `job` what the ranks must agree on. Null for a single one.
std::unique_ptr<collectives::Communicator> join(const Prepared& prepared, const collectives::Identity& own,
                                                trainer::Job& job) {
  if (own.size <= 1) return nullptr;
  const auto engine = collectives::Options::from_environment();
  auto world = collectives::Communicator::create(engine);
  job.reduction_deadline = engine.deadline;
  try {
    if (job.plan) check_plan(*job.plan, prepared.options.plan, *world, engine.routing);
    const auto [reduction, note] = trainer::choose_reduction(prepared.wish, prepared.back_end, world.get());
    job.reduction = reduction;
    if (!note.empty() && own.rank == 0) fmt::print("{}\n", note);
  } catch (const Error&) {
    // Every rank finds the same error. Leaving the communicator in order keeps the others from reporting
    // that this rank failed.
    world.reset();
    throw;
  }
  return world;
}

/// What the run prints as it goes on.
trainer::TrainHooks printing_hooks(const Prepared& prepared, const trainer::Job& job) {
  trainer::TrainHooks hooks;
  hooks.log = train_log();
  hooks.started = while_it_can(
      [&prepared](const trainer::Job& started, const trainer::StageCompute& compute) {
        print_start(started, compute, prepared.back_end.device);
        if (compute.pass_clock() == planner::PassClock::kDevice &&
            (!prepared.options.timeline.empty() || !prepared.options.measured.empty()))
          fmt::print("passes are timed by the GPU's own clock\n");
      },
      hooks.log);
  hooks.stepped = while_it_can(
      [progress = trainer::ProgressLines(job.shape, prepared.options.steps, prepared.options.peak)](
          const trainer::StepReport& report) mutable {
        const std::string line = progress.line(report);
        if (line.empty()) return;
        fmt::print("{}\n", line);
        std::fflush(stdout);
      },
      hooks.log);
  hooks.sampled = while_it_can(print_sample, hooks.log);
  hooks.stop_requested = stop_requested;
  return hooks;
}

/// The sample of the trained model; false where an interrupt cut it short.
bool print_last_sample(const trainer::TrainOptions& options, const trainer::TrainResult& result) {
  trainer::GenerateOptions wanted = options.sample;
  wanted.tokenizer = options.tokenizer;
  const trainer::GeneratedText sample =
      trainer::generate(result.shape, result.parameters, wanted, stop_requested);
  fmt::print("--- sample ---\n{}\n", sample.text);
  if (sample.tokens == wanted.tokens) return true;
  fmt::print(stderr, "tombolo train: interrupted after {} of {} {} of the sample\n", sample.tokens,
             wanted.tokens, wanted.tokenizer.empty() ? "bytes" : "tokens");
  return false;
}

/// What is left to be said, once the ranks have parted; returns the exit code.
int finish(const trainer::TrainOptions& options, const trainer::TrainResult& result, bool rank_zero,
           const Log& log) {
  while_it_can(print_waits, log)(result);
  for (const std::string& file : result.unwritten)
    log.warning("trained to the end, but without this file: {}", file);
  if (!result.parameters.empty() && !print_last_sample(options, result)) return kExitInterrupted;
  if (!result.checkpointed) {  // every rank knows it, and one says it
    if (rank_zero)
      fmt::print(stderr, "tombolo train: the last state is in no checkpoint: see the warnings above\n");
    return kExitFailed;
  }
  if (!result.interrupted) return kExitOk;
  if (rank_zero) fmt::print(stderr, "tombolo train: interrupted after {} steps\n", result.steps);
  return kExitInterrupted;
}

int run_train(const TrainCommand& command) {
  catch_stop_requests();
  // A file beyond `ulimit -f` is then a write that fails, like any other.
  std::signal(SIGXFSZ, SIG_IGN);
  const auto identity = collectives::Identity::from_environment();
  Prepared prepared = prepare(command, identity);
  const trainer::BackEnd& back_end = prepared.back_end;
  if (!back_end.note.empty() && identity.rank == 0) fmt::print("{}\n", back_end.note);
  trainer::Job job = trainer::resolve(prepared.options);  // refuses bad options before waiting for others
  auto world = join(prepared, identity, job);
  const bool rank_zero = !world || world->rank() == 0;
  prepared.options.peak =
      trainer::total_peak(back_end.peak(job.precision),
                          back_end.device == trainer::DeviceChoice::kCpu ? job.threads : 0, world.get());
  const trainer::TrainHooks hooks = printing_hooks(prepared, job);
  try {
    const trainer::TrainResult result = trainer::train(prepared.options, job, world.get(), hooks);
    world.reset();
    return finish(prepared.options, result, rank_zero, hooks.log);
  } catch (const trainer::Diverged& diverged) {
    world.reset();
    fmt::print(stderr, "tombolo train: {}\n", diverged.what());
    return kExitDiverged;
  }
}

/// Where CLI11 would take "-1" for the largest number.
const CLI::Validator kFromZero(
    [](std::string& text) { return text.starts_with('-') ? text + " is below 0" : std::string(); }, "");

void add_checkpoint_options(CLI::App& app, trainer::CheckpointOptions& options) {
  CLI::Option* folder =
      app.add_option("--checkpoint", options.folder,
                     "Folder for the run's checkpoints, which hold all that it needs to go on");
  app.add_option("--every", options.every, "Steps from one checkpoint to the next")
      ->needs(folder)
      ->capture_default_str();
  app.add_option("--keep", options.keep, "Whole checkpoints that are left; older ones are removed")
      ->needs(folder)
      ->capture_default_str();
  app.add_option(
      "--resume", options.resume,
      "auto: from the newest whole checkpoint in --checkpoint, or from the start where there is none; "
      "or a checkpoint's folder");
}

}  // namespace

void add_train(CommandLine& tombolo) {
  auto command = std::make_shared<TrainCommand>();
  CLI::App& app = tombolo.add("train", "Train a GPT on text or tokens", kTrainHelp,
                              [command] { return run_train(*command); });
  const std::shared_ptr<trainer::TrainOptions> options(command, &command->train);
  add_json_config(app);
  app.add_option("--data", options->data,
                 "What to train on: any file, whose bytes are the tokens, or text with --tokenizer, or token "
                 "files of llm.c's; several by a pattern ('train_*.bin') or with commas")
      ->required();
  app.add_option("--tokenizer", options->tokenizer,
                 "GPT-2's, for text: vocab.bpe or merges.txt (its vocabulary beside it), tokenizer.json, "
                 "gpt2.tiktoken, gpt2_tokenizer.bin, or their folder");
  app.add_option("--shuffle", options->shuffle,
                 "Seed of the order of rows, another in every epoch [as they stand in the data]")
      ->check(kFromZero);
  app.add_option(
         "--init", options->init,
         "random:SEED, or a model to start from: llm.c's checkpoint, model.safetensors of a GPT-2 with "
         "config.json beside it, or their folder")
      ->capture_default_str();
  app.add_option("--layers", options->layers, "Transformer blocks [4]");
  app.add_option("--width", options->width, "Width of the residual stream [128]");
  app.add_option("--heads", options->heads, "Attention heads; divides the width [4]");
  app.add_option("--context", options->context, "Tokens per row [128]");
  app.add_option("--vocabulary", options->vocabulary,
                 "Tokens; all of the data must be below it [the data's]");
  app.add_option("--batch", options->batch, "Rows per step, over all replicas [8]");
  app.add_option("--steps", options->steps, "Steps to make in all, those before --resume included")
      ->capture_default_str();
  app.add_option("--lr", options->optimizer.learning_rate, "AdamW's learning rate")->capture_default_str();
  app.add_option("--warmup", options->optimizer.warmup, "Steps over which the rate rises to --lr")
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--lr-schedule",
         [options](const std::string& text) {
           options->optimizer.schedule =
               text == "cosine" ? trainer::RateSchedule::kCosine : trainer::RateSchedule::kConstant;
         },
         "How the rate goes on after --warmup: constant, or cosine, which falls to --lr-min at the last step "
         "[constant]")
      ->check(CLI::IsMember({"constant", "cosine"}));
  app.add_option("--lr-min", options->optimizer.smallest_rate, "Where --lr-schedule cosine ends")
      ->capture_default_str();
  app.add_option("--weight-decay", options->optimizer.weight_decay, "Decoupled decay, on matrices only")
      ->capture_default_str();
  app.add_option("--clip", options->optimizer.clip, "Largest gradient norm of the whole model; 0 = no limit")
      ->capture_default_str();
  app.add_option("--plan", options->plan, "Plan file: who takes which layers (tombolo plan)");
  app.add_option("--pipeline", options->pipeline, "Stages, without a plan [1]");
  app.add_option("--replicas", options->replicas, "Data-parallel replicas, without a plan [1]");
  app.add_option("--micro-batch", options->micro_batch,
                 "Rows per micro-batch, without a plan; 0 = one micro-batch per stage [0]");
  app.add_option("--threads", options->threads, "Threads per rank for matrix products")
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--device",
         [command](const std::string& text) { command->device = *trainer::device_choice_from_name(text); },
         "What computes: cpu, cuda (a GPU), or auto: a GPU where one works, else the CPU [the plan's; cpu]")
      ->check(CLI::IsMember({"cpu", "cuda", "auto"}));
  app.add_option("--gpu", command->gpu,
                 "Number of the GPU among those that CUDA shows [the rank's number on its host]")
      ->check(kFromZero);
  app.add_option_function<std::string>(
         "--reduce",
         [command](const std::string& text) {
           command->reduction = *trainer::reduction_choice_from_name(text);
         },
         "What sums gradients over ranks: engine, in host memory; nccl, in the GPUs' memory, over Tombolo's "
         "net "
         "plugin; auto: nccl where every rank has a GPU of its own and NCCL can be loaded, else the engine "
         "[auto]")
      ->check(CLI::IsMember({"auto", "engine", "nccl"}));
  const auto add_precision = [&](const char* name, std::optional<compute::Precision>& precision,
                                 const char* help) {
    app.add_option_function<std::string>(
           name,
           [command, &precision](const std::string& text) {
             precision = *compute::precision_from_name(text);
           },
           help)
        ->check(CLI::IsMember({"fp32", "bf16"}));
  };
  add_precision(
      "--dtype", options->precision,
      "On the CPU what matrix products take: fp32; or bf16, where the processor has AVX512_BF16; all "
      "else is fp32. On a GPU what activations and products are: fp32 or bf16; sums, gradients of "
      "parameters and the optimizer's parameters are fp32 [the plan's; fp32]");
  add_precision("--moments", options->moments,
                "In which the optimizer's moments are kept: fp32; or bf16, on a GPU [the plan's; fp32]");
  app.add_option_function<std::string>(
         "--recompute",
         [options](const std::string& text) { options->recompute = *planner::recompute_from_name(text); },
         "What backward computes again in place of keeping it: none; selective, the attention's weights; "
         "full, "
         "all of a block but its output [the plan's; none]")
      ->check(CLI::IsMember({"none", "selective", "full"}));
  app.add_option_function<std::string>(
      "--bucket",
      [options](const std::string& text) { options->bucket_bytes = parse_size(text, "--bucket"); },
      "Gradients are reduced in pieces of at least this size [256K]");
  add_checkpoint_options(app, options->checkpoints);
  app.add_option("--log", options->log,
                 "JSON lines: step, loss, grad_norm, tokens_per_second, step_seconds, learning_rate, mfu, "
                 "and validation_loss "
                 "where it was measured; on --resume those of the steps before stay");
  app.add_option("--tensorboard", options->tensorboard,
                 "Folder for TensorBoard's event files: loss, norm, rate, tokens per second, MFU");
  app.add_option("--save", options->save,
                 "Model to write at the end: llm.c's checkpoint, or .safetensors for Hugging Face's");
  app.add_option("--timeline", options->timeline,
                 "Chrome trace of some steps, with every rank's compute and wait time");
  app.add_option("--timeline-first", options->timeline_first, "First step in the trace")
      ->capture_default_str();
  app.add_option("--timeline-steps", options->timeline_steps, "Steps in the trace")->capture_default_str();
  app.add_option("--traffic", options->traffic, "JSON: bytes sent over each pair of NICs");
  app.add_option(
      "--measured", options->measured,
      "JSON for tombolo simulate --measured: step times, and what each rank computed (on a GPU by its own "
      "clock), waited and sent");
  app.add_option("--validation", options->evaluation.validation,
                 "Data to measure the loss on without training on it, as --data");
  app.add_option("--validate-every", options->evaluation.validate_every,
                 "Measure it after every so many steps; 0 = after the last only")
      ->capture_default_str();
  app.add_option("--validation-rows", options->evaluation.validation_rows,
                 "On at most so many rows, always the same: whole batches, at least one")
      ->capture_default_str();
  app.add_option("--sample", options->sample.tokens,
                 "Tokens of text to generate at the end (bytes without --tokenizer)")
      ->capture_default_str();
  app.add_option("--sample-every", options->evaluation.sample_every,
                 "Also after every so many steps, while training goes on; 0 = never")
      ->capture_default_str();
  app.add_option("--prompt", options->sample.prompt, "What the sample continues [a line break]");
  app.add_option("--temperature", options->sample.temperature, "0 = always the likeliest token")
      ->capture_default_str();
  app.add_option("--seed", options->sample.seed, "Of the sample")->check(kFromZero)->capture_default_str();
}

}  // namespace tombolo::tools
