// tombolo train: a GPT on text or tokens, by one rank or many.
#include "trainer/run/train.h"

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <memory>

#include "base/error.h"
#include "base/format.h"
#include "base/units.h"
#include "collectives/engine/communicator.h"
#include "collectives/rendezvous/bootstrap.h"
#include "compute/product_speed.h"
#include "tools/cli/command.h"
#include "trainer/run/placement_check.h"

namespace tombolo::tools {
namespace {

constexpr const char* kTrainHelp =
    "Trains a GPT-2-shaped model (on the CPU): on the bytes of a file, on its text in GPT-2's tokens "
    "(--tokenizer),\n"
    "or on token files of llm.c's. Alone it is one process without any sockets; started by tombolo run, "
    "torchrun, srun or mpirun it is a pipeline of stages times replicas, "
    "laid out by\n"
    "a plan or by --pipeline and --replicas. Every layout sees the same rows in the same step and reports "
    "the same\n"
    "loss. With a plan, every rank must run on the host that the plan gives it. Models are read from and "
    "written to\n"
    "llm.c's checkpoints and Hugging Face's safetensors (tombolo export converts).\n"
    "\nExamples:\n"
    "  tombolo train --data book.txt --steps 200 --sample 300\n"
    "  tombolo train --data book.txt --init model.bin --save model.bin --log steps.jsonl\n"
    "  tombolo train --data 'fineweb_train_*.bin' --validation fineweb_val.bin --validate-every 250 "
    "--init gpt2/model.safetensors\n"
    "  tombolo train --data book.txt --tokenizer vocab.bpe --shuffle 1 --lr-schedule cosine --warmup 100\n"
    "  tombolo run -n 4 -- tombolo train --data book.txt --layers 8 --pipeline 2 --replicas 2\n"
    "  tombolo run -n 4 -- tombolo train --data book.txt --plan plan.json --steps 30 --measured run.json\n"
    "\nExit codes: 0 done, 1 failed, 2 bad options or files, 130 interrupted (after the step under way; "
    "--save is\n"
    "still written; while sampling after the token under way). A second interrupt ends the process at once.";

constexpr int kExitInterrupted = 130;

std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "set from a signal handler");

void on_signal(int) {
  stop_requested = true;
}

/// The first signal asks for a stop; the second has its default effect.
void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

void print_start(const trainer::Job& job, const trainer::StageMemory& memory) {
  const auto total = memory.parameters + memory.gradients + memory.optimizer + memory.activations;
  fmt::print("{}: {} parameters; {} stages x {} replicas, batch {}, micro-batch {}; {} on this rank\n",
             job.shape.text(), trainer::parameter_count(job.shape), job.parallel.pipeline(),
             job.parallel.replicas, job.parallel.global_batch, job.parallel.micro_batch, format_size(total));
  constexpr double kProductSeconds = 0.01;
  fmt::print("matrix products: {}\n", compute::measure_products(kProductSeconds, job.precision).text());
  std::fflush(stdout);
}

/// One line for the first step, the last, those after which the model was validated, and about one a second
/// in between.
class ProgressLines {
 public:
  explicit ProgressLines(int steps) : steps_(steps) {}
  void operator()(const trainer::StepReport& report) {
    since_ += report.seconds;
    if (report.step > 0 && report.step + 1 < steps_ && !report.interrupted && !report.validation_loss &&
        since_ < 1)
      return;
    since_ = 0;
    fmt::print("step {}/{}  loss {:.4f}  norm {:.3f}  {:.1f} ms  {:.0f} tokens/s", report.step + 1, steps_,
               report.loss, report.gradient_norm, report.seconds * 1e3, report.tokens_per_second);
    if (report.validation_loss) fmt::print("  validation loss {:.4f}", *report.validation_loss);
    fmt::print("\n");
    std::fflush(stdout);
  }

 private:
  int steps_;
  double since_ = 0;
};

void print_sample(int step, const std::string& text) {
  fmt::print("--- sample after step {} ---\n{}\n---\n", step + 1, text);
  std::fflush(stdout);
}

void check_plan(const std::string& path, const collectives::Communicator& world,
                collectives::Routing routing) {
  const std::string warning =
      trainer::check_placement(planner::Plan::load(path), path, world.members(), routing);
  if (!warning.empty() && world.rank() == 0) fmt::print(stderr, "tombolo train: warning: {}\n", warning);
}

int run_train(const trainer::TrainOptions& options) {
  catch_interrupts();
  std::unique_ptr<collectives::Communicator> world;
  if (collectives::Identity::from_environment().size > 1) {
    trainer::resolve(options);  // refuse bad options before waiting for other ranks
    const auto engine = collectives::Options::from_environment();
    world = collectives::Communicator::create(engine);
    try {
      if (!options.plan.empty()) check_plan(options.plan, *world, engine.routing);
    } catch (const Error&) {
      // Every rank finds the same error. Leaving the communicator in order keeps the others from reporting
      // that this rank failed.
      world.reset();
      throw;
    }
  }
  const bool rank_zero = !world || world->rank() == 0;
  trainer::TrainHooks hooks;
  hooks.started = print_start;
  hooks.stepped = ProgressLines(options.steps);
  hooks.sampled = print_sample;
  hooks.stop_requested = [] { return stop_requested.load(); };
  const trainer::TrainResult result = trainer::train(options, world.get(), hooks);
  world.reset();
  if (!result.parameters.empty()) {
    trainer::GenerateOptions wanted = options.sample;
    wanted.tokenizer = options.tokenizer;
    const trainer::GeneratedText sample =
        trainer::generate(result.shape, result.parameters, wanted, hooks.stop_requested);
    fmt::print("--- sample ---\n{}\n", sample.text);
    if (sample.tokens < wanted.tokens) {
      fmt::print(stderr, "tombolo train: interrupted after {} of {} {} of the sample\n", sample.tokens,
                 wanted.tokens, wanted.tokenizer.empty() ? "bytes" : "tokens");
      return kExitInterrupted;
    }
  }
  if (!result.interrupted) return kExitOk;
  if (rank_zero) fmt::print(stderr, "tombolo train: interrupted after {} steps\n", result.steps);
  return kExitInterrupted;
}

}  // namespace

void add_train(CommandLine& tombolo) {
  auto options = std::make_shared<trainer::TrainOptions>();
  CLI::App& app = tombolo.add("train", "Train a GPT on text or tokens", kTrainHelp,
                              [options] { return run_train(*options); });
  app.add_option("--data", options->data,
                 "What to train on: any file, whose bytes are the tokens, or text with --tokenizer, or token "
                 "files of llm.c's; several by a pattern ('train_*.bin') or with commas")
      ->required();
  app.add_option("--tokenizer", options->tokenizer,
                 "GPT-2's, for text: vocab.bpe or merges.txt (its vocabulary beside it), tokenizer.json, "
                 "gpt2.tiktoken, gpt2_tokenizer.bin, or their folder");
  app.add_option("--shuffle", options->shuffle,
                 "Seed of the order of rows, another in every epoch [as they stand in the data]");
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
  app.add_option("--steps", options->steps, "Steps to make")->capture_default_str();
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
         "--dtype",
         [options](const std::string& text) { options->precision = *compute::precision_from_name(text); },
         "What matrix products take: fp32; or bf16, where the processor has AVX512_BF16. All else is fp32 "
         "[fp32]")
      ->check(CLI::IsMember({"fp32", "bf16"}));
  app.add_option_function<std::string>(
      "--bucket",
      [options](const std::string& text) { options->bucket_bytes = parse_size(text, "--bucket"); },
      "Gradients are reduced in pieces of at least this size [256K]");
  app.add_option("--log", options->log,
                 "JSON lines: step, loss, grad_norm, tokens_per_second, step_seconds, learning_rate; "
                 "validation_loss where "
                 "it was measured");
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
      "JSON for tombolo simulate --measured: step times, and what each rank computed, waited and sent");
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
  app.add_option("--temperature", options->sample.temperature, "0 = always the likeliest byte")
      ->capture_default_str();
  app.add_option("--seed", options->sample.seed, "Of the sample")->capture_default_str();
}

}  // namespace tombolo::tools
