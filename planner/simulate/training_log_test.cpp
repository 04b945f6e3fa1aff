// Logs as the frameworks print them, with made-up figures: each format, and what may befall any log.
#include "planner/simulate/training_log.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <random>
#include <sstream>

#include "base/error.h"
#include "base/randomized_test.h"
#include "base/temporary_folder.h"
#include "planner/simulate/calibrate.h"

namespace tombolo::planner {
namespace {

std::string megatron_line(int iteration, double milliseconds, int batch, const std::string& tflops = "301.5",
                          int skipped = 0) {
  return fmt::format(
      " [2026-02-03 04:05:06.7] iteration {:8}/ 100 | consumed samples: {:12} | elapsed time per iteration "
      "(ms): {:.1f} | throughput per GPU (TFLOP/s/GPU): {} | learning rate: 1.000000E-04 | global batch "
      "size: "
      "{:5} | lm loss: 1.041234E+01 | loss scale: 1.0 | grad norm: 2.034 | number of skipped iterations: "
      "{:3} | "
      "number of nan iterations:   0 |\n",
      iteration, iteration * batch, milliseconds, tflops, batch, skipped);
}

std::string nemo_line(int iteration, double seconds) {
  return fmt::format(
      "Training epoch 0, iteration {}/99 | lr: 0.0001 | global_batch_size: 512 | global_step: {} | "
      "reduced_train_loss: 10.91 | train_step_timing in s: {:.4} | TFLOPS_per_GPU: 401.2 | consumed_samples: "
      "{}\n",
      iteration, iteration, seconds, 512 * iteration);
}

/// In colours, as on a terminal, and behind torchrun's prefix.
std::string torchtitan_line(int step, int tokens_per_second, int rank = 0) {
  return fmt::format(
      "[rank{}]:[titan] 2026-02-03 04:05:06,789 - root - INFO - \033[31mstep: {:2}  \033[32mloss: 12.24512  "
      "\033[38;2;180;60;0mgrad_norm:  4.1234  \033[38;2;54;234;195mmemory: 39.22GiB(49.54%)  \033[34mtps: "
      "{},{:03}  "
      "\033[36mtflops: 1,411.50  \033[35mmfu: 41.61%\033[39m\n",
      rank, step, tokens_per_second / 1000, tokens_per_second % 1000);
}

std::string deepspeed_line(int step, double seconds) {
  return fmt::format("steps: {} loss: 9.1234 iter time (s): {:.3f} samples/sec: {:.3f}\n", step, seconds,
                     512 / seconds);
}

std::string timer_line(int step, double rows_per_second) {
  return fmt::format(
      "[2026-02-03 04:05:06,789] [INFO] [timer.py:264:stop] epoch=0/micro_step={}/global_step={}, "
      "RunningAvgSamplesPerSec=99.1, CurrSamplesPerSec={}, MemAllocated=30.1GB, MaxMemAllocated=41.2GB\n",
      4 * step, step, rows_per_second);
}

/// A plan of a framework: 512 rows of 8192 tokens, on 16 devices.
Plan plan_that_ran(Framework framework = Framework::kMegatron) {
  Plan plan;
  plan.job.framework = framework;
  plan.job.global_batch = 512;
  plan.job.model.context = 8192;
  plan.ranks.resize(16);
  return plan;
}

MeasuredRun read(const std::string& text, const Plan& plan = plan_that_ran()) {
  std::istringstream log(text);
  return run_of_log(read_training_log(log, "train.log"), plan, "train.log");
}

std::string log_problem(const std::string& text) {
  try {
    (void)read(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
    return error.what();
  }
  return "nothing thrown";
}

TEST(TrainingLog, OfMegatronGivesTheStepsAfterTheWarmUp) {
  std::string text = "> building GPT model ...\n";
  for (int i = 1; i <= 10; ++i) text += "[default7]:" + megatron_line(i, i == 1 ? 30'000 : 4000 + i, 512);
  const MeasuredRun run = read(text + "[after training is done]\n");
  EXPECT_EQ(run.step_seconds.size(), 10U);
  EXPECT_EQ(run.warm_up, 2);
  EXPECT_NEAR(run.median_step(), 4.0065, 1e-9);
  EXPECT_EQ(run.global_batch, 512);
  EXPECT_NEAR(run.flops_per_second, 301.5e12, 1);
  EXPECT_TRUE(run.ranks.empty());
  EXPECT_TRUE(run.notes.empty());
}

TEST(TrainingLog, OfMegatronMayLackThroughputAndBatch) {
  const MeasuredRun run =
      read("iteration 5/ 9 | elapsed time per iteration (ms): 250.5 | lm loss: 2.0E+00 |\n");
  EXPECT_EQ(run.step_seconds, std::vector{0.2505});
  EXPECT_EQ(run.global_batch, 0);
  EXPECT_EQ(run.flops_per_second, 0);
  EXPECT_EQ(read(megatron_line(1, 3, 8, "0.0")).flops_per_second, 0) << "of a small model, rounded";
}

TEST(TrainingLog, OfNeMoIsReadAsItIsPrinted) {
  std::string text = "Sanity checking Validation: iteration 1/2\n";
  for (int i = 0; i < 10; ++i) text += nemo_line(i, i == 0 ? 31.2 : 4.5 + 0.01 * i);
  text += "'train_step_timing in s' not found. Make sure to use TimingCallback\nValidation: iteration 1/32\n";
  const MeasuredRun run = read(text, plan_that_ran(Framework::kNeMo));
  EXPECT_EQ(run.step_seconds.size(), 10U);
  EXPECT_NEAR(run.median_step(), 4.555, 1e-9);
  EXPECT_EQ(run.global_batch, 512);
  EXPECT_NEAR(run.flops_per_second, 401.2e12, 1);
  EXPECT_TRUE(run.notes.empty());
}

TEST(TrainingLog, OfNeMosProgressBarCountsEachStepOnce) {
  std::string text;
  for (int i = 0; i < 4; ++i)
    for (int drawn = 0; drawn < 3; ++drawn)
      text += fmt::format(
          "Epoch 0:  {}%|#   | {}/100 [00:45<06:45, v_num=3, reduced_train_loss=10.90, global_step={}.000, "
          "consumed_samples=512.0, train_step_timing in s={}.250]\r",
          i + 1, i + 1, i, i + 4);
  const MeasuredRun run = read(text + "Epoch 0:   5%|#", plan_that_ran(Framework::kNeMo));
  EXPECT_EQ(run.step_seconds, (std::vector{4.25, 5.25, 6.25, 7.25}));
}

TEST(TrainingLog, OfTorchTitanBecomesSecondsByThePlan) {
  std::string text =
      "[rank0]:[titan] 2026-02-03 04:05:00,000 - root - INFO - Building device mesh with parallelism: pp=2, "
      "dp_replicate=1, dp_shard=4, cp=1, tp=2, ep=2, etp=1\n"
      "[rank0]:[titan] 2026-02-03 04:05:00,000 - root - INFO - Trainer is initialized with local batch size "
      "8, global "
      "batch size 512, gradient accumulation steps 4, sequence length 8192, total steps 1000 (warmup 200)\n"
      "[rank0]:[titan] 2026-02-03 04:05:00,000 - root - INFO - Training starts at step 1\n" +
      torchtitan_line(1, 120);
  for (int step = 10; step <= 50; step += 10)
    for (int rank = 0; rank < 2; ++rank) text += torchtitan_line(step, 7000 + step + rank, rank);
  text +=
      "[rank0]:[titan] \033[33mvalidate step: 50  \033[32mloss: 11.9  \033[38;2;54;234;195mmemory: "
      "39.22GiB(49.54%)  "
      "\033[34mtps: 99,999\033[39m\n";
  const MeasuredRun run = read(text, plan_that_ran(Framework::kTorchTitan));
  ASSERT_EQ(run.step_seconds.size(), 6U) << "two ranks print each, and the validation is no step";
  EXPECT_EQ(run.warm_up, 1);
  EXPECT_NEAR(run.median_step(), 512 * 8192 / (7030.0 * 16), 1e-9);
  EXPECT_NEAR(run.flops_per_second, 1411.5e12, 1);
  EXPECT_EQ(run.global_batch, 512);
  EXPECT_EQ(run.context, 8192);
  EXPECT_EQ(run.devices, 16);
  EXPECT_TRUE(run.notes.empty());
}

TEST(TrainingLog, OfTorchTitanLeavesOutTheStepsWhoseClockRanOnThroughACheckpoint) {
  std::string text;
  for (int step = 10; step <= 100; step += 10) {
    text += torchtitan_line(step, step % 20 == 10 ? 1000 : 7000);
    if (step % 20 == 0)
      text +=
          "[titan] Saving the checkpoint (or staging if async is enabled).\n[titan] Finished saving the "
          "checkpoint (or staging if async is enabled)in 31.02 seconds.\n";
  }
  const MeasuredRun run = read(text, plan_that_ran(Framework::kTorchTitan));
  EXPECT_EQ(run.step_seconds.size(), 6U) << "of ten four follow a checkpoint";
  EXPECT_NEAR(run.median_step(), 512 * 8192 / (7000.0 * 16), 1e-9);
  ASSERT_EQ(run.notes.size(), 1U);
  EXPECT_EQ(run.notes[0], "4 lines of steps left out, in which an update was skipped or a checkpoint saved.");
}

TEST(TrainingLog, OfDeepSpeedsPipelineTellsTheBatchToo) {
  std::string text;
  for (int step = 10; step <= 60; step += 10)
    text += "worker-0: " + deepspeed_line(step, step == 10 ? 20 : 4.321);
  const MeasuredRun run = read(text, plan_that_ran(Framework::kDeepSpeed));
  EXPECT_EQ(run.step_seconds.size(), 6U);
  EXPECT_EQ(run.median_step(), 4.321);
  EXPECT_EQ(run.global_batch, 512);
  EXPECT_EQ(read(deepspeed_line(1, 0.012)).global_batch, 0) << "thousandths of a second leave several";
}

TEST(TrainingLog, OfDeepSpeedsTimerBecomesSecondsByThePlan) {
  std::string text;
  for (int step = 1; step <= 6; ++step) {
    if (step == 4) text += "[INFO] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536\n";
    text += timer_line(step, step == 4 ? 900 : 128);
  }
  const MeasuredRun run = read(text, plan_that_ran(Framework::kDeepSpeed));
  EXPECT_EQ(run.step_seconds, std::vector(5, 4.0)) << "the step without an update is left out";
}

TEST(TrainingLog, TakesTheFormatThatMostLinesHaveAndSaysWhereThePlanIsOfAnotherFramework) {
  std::string text = deepspeed_line(10, 9);
  for (int i = 1; i <= 10; ++i) text += megatron_line(i, 4000, 512);
  EXPECT_EQ(read(text, plan_that_ran(Framework::kDeepSpeed)).median_step(), 4);
  EXPECT_TRUE(read(text, plan_that_ran(Framework::kDeepSpeed)).notes.empty())
      << "Megatron's loop by DeepSpeed";
  const MeasuredRun other = read(text, plan_that_ran(Framework::kTorchTitan));
  ASSERT_EQ(other.notes.size(), 1U);
  EXPECT_EQ(
      other.notes[0],
      "The lines of train.log are those of Megatron-LM, and the plan is for torchtitan: is it a log of this "
      "plan?");
}

TEST(TrainingLog, OfAGrowingBatchTheLastCounts) {
  const MeasuredRun run =
      read(megatron_line(1, 900, 64) + megatron_line(2, 1800, 128) + megatron_line(3, 1700, 128));
  EXPECT_EQ(run.step_seconds, (std::vector{1.8, 1.7}));
  EXPECT_EQ(run.global_batch, 128);
}

TEST(TrainingLog, LeavesOutStepsWithoutAnUpdateUnlessThereAreNoOthers) {
  std::string text;
  for (int i = 1; i <= 8; ++i) text += megatron_line(i, i <= 4 ? 700 : 900, 64, "1.0", i <= 4 ? 1 : 0);
  EXPECT_EQ(read(text).step_seconds, std::vector(4, 0.9));
  EXPECT_EQ(read(megatron_line(1, 700, 64, "1.0", 1)).step_seconds, std::vector{0.7});
}

/// Lines of steps from `first` on, of which the first is slow.
std::string started(int first, int steps, double milliseconds) {
  std::string text;
  for (int i = 0; i < steps; ++i) text += megatron_line(first + i, i == 0 ? 30'000 : milliseconds, 64);
  return text;
}

TEST(TrainingLog, OfAJobThatWasStartedAgainTheLastStartCounts) {
  const MeasuredRun run = read(started(1, 9, 5000) + started(6, 6, 4000));
  EXPECT_EQ(run.step_seconds, (std::vector{30.0, 4.0, 4.0, 4.0, 4.0, 4.0}));
  ASSERT_EQ(run.notes.size(), 1U);
  EXPECT_EQ(
      run.notes[0],
      "The job was started 2 times in it (or several outputs follow each other); the start whose steps begin "
      "in line 10 counts.");
  // From its last checkpoint on, so that the numbers do not go back.
  const std::string begin = "[before the start of training step] datetime: 2026-02-03 04:05:06\n";
  EXPECT_EQ(read(begin + started(1, 9, 5000) + begin + begin + started(10, 6, 4000)).median_step(), 4);
  // A start that has only warmed up tells less than the one before.
  EXPECT_EQ(read(started(1, 9, 5000) + started(6, 2, 4000)).median_step(), 5);
  EXPECT_EQ(read(started(1, 9, 5000) + begin).median_step(), 5);
}

/// A start of torchtitan's on that many devices, as it says so before its first step.
std::string titan_start(int devices, int steps, int tokens_per_second) {
  std::string text = fmt::format(
      "[titan] Building device mesh with parallelism: pp=1, dp_replicate=1, dp_shard={}, cp=1, tp=1\n"
      "[titan] Trainer is initialized with local batch size 8, global batch size {}, gradient accumulation "
      "steps 4, sequence length 8192, total steps 1000 (warmup 200)\n"
      "[titan] Training starts at step 1\n",
      devices, 32 * devices);
  for (int step = 1; step <= steps; ++step) text += torchtitan_line(step, tokens_per_second);
  return text;
}

TEST(TrainingLog, OfEachStartWhatIsSaidOfTheJobIsItsOwn) {
  const Plan plan = plan_that_ran(Framework::kTorchTitan);
  const MeasuredRun longer = read(titan_start(8, 20, 7000) + titan_start(16, 3, 6000), plan);
  EXPECT_EQ(longer.step_seconds.size(), 20U);
  EXPECT_EQ(longer.devices, 8);
  EXPECT_EQ(longer.global_batch, 256);
  const MeasuredRun last = read(titan_start(16, 3, 6000) + titan_start(8, 20, 7000), plan);
  EXPECT_EQ(last.step_seconds.size(), 20U);
  EXPECT_EQ(last.devices, 8);
  EXPECT_EQ(read(titan_start(8, 20, 7000) + titan_start(16, 6, 6000), plan).devices, 16);
}

TEST(TrainingLog, OfNeMoAnEpochIsNoStart) {
  const Plan plan = plan_that_ran(Framework::kNeMo);
  std::string stepped, unstepped;
  for (int step = 0; step < 24; ++step) {
    const std::string head = fmt::format("Training epoch {}, iteration {}/7 | ", step / 8, step % 8);
    stepped += head + fmt::format("global_step: {} | train_step_timing in s: {}\n", step, 4 + 0.1 * step);
    unstepped += head + fmt::format("train_step_timing in s: {}\n", 4 + 0.1 * step);
  }
  for (const std::string& text : {stepped, unstepped}) {
    const MeasuredRun run = read(text, plan);
    EXPECT_EQ(run.step_seconds.size(), 24U);
    EXPECT_TRUE(run.notes.empty()) << run.notes[0];
    EXPECT_EQ(read(text + text, plan).notes.size(), 1U) << "it was started again";
  }
}

TEST(TrainingLog, ARankThatLagsByAnIntervalStartsNothing) {
  std::string text = torchtitan_line(1, 120);
  for (int step = 10; step <= 200; step += 10)
    text += torchtitan_line(step, 7000 + step) + torchtitan_line(step == 10 ? 1 : step - 10, 100, 1);
  const Plan plan = plan_that_ran(Framework::kTorchTitan);
  const MeasuredRun run = read(text, plan);
  EXPECT_EQ(run.step_seconds.size(), 21U);
  EXPECT_TRUE(run.notes.empty()) << run.notes[0];
  EXPECT_EQ(run.step_seconds.back(), 512 * 8192 / (7200.0 * 16));
  EXPECT_EQ(read(text + torchtitan_line(180, 7000), plan).notes.size(), 1U) << "two intervals back";
}

TEST(TrainingLog, LeavesOutTornLinesAndSaysSo) {
  const MeasuredRun run =
      read(megatron_line(1, 900, 64) + "elapsed time per iteration (ms): 43[default3]: iter\n" +
           "elapsed time per iteration (ms): soon |\n" + megatron_line(2, 800, 64) +
           megatron_line(3, 700, 64) + " iteration 4/ 100 | elapsed time per iteration (ms): 6");
  EXPECT_EQ(run.step_seconds, (std::vector{0.9, 0.8, 0.7})) << "nor the last, which has no end";
  ASSERT_EQ(run.notes.size(), 1U);
  EXPECT_EQ(
      run.notes[0],
      "2 lines of steps left out, which cannot be read; the first is line 2: \"elapsed time per iteration "
      "(ms):\" is followed by \"43[default3]: iter\", expected a number > 0.");
}

TEST(TrainingLog, RefusesWhatHasNoStepAndSaysWhatWasLookedFor) {
  const std::string none = log_problem("hello\nworld\n");
  for (const char* part :
       {"train.log: neither JSON", "of 2 lines none has", "\"elapsed time per iteration (ms):\" (Megatron-LM",
        "\"train_step_timing in s\" (NeMo", "\"tps:\" (torchtitan", "\"iter time (s):\" (DeepSpeed",
        "\"CurrSamplesPerSec=\" (DeepSpeed", "Give the output of the rank"})
    EXPECT_NE(none.find(part), std::string::npos) << part << "\n" << none;
  EXPECT_NE(log_problem("").find("of 0 lines none has"), std::string::npos);
  EXPECT_NE(log_problem("hello\n 5%\r 6%\r").find("of 2 lines none has"), std::string::npos);
  EXPECT_NE(log_problem("elapsed time per iteration (ms): 43").find("the last has no end"),
            std::string::npos);
  EXPECT_NE(log_problem(std::string(300'000, '\0')).find("of 1 line "), std::string::npos);
  const std::string wrong = log_problem("x\n" + megatron_line(1, 0, 64) + megatron_line(2, 1, 64, "nan"));
  EXPECT_NE(
      wrong.find("train.log: 2 lines of steps that Megatron-LM printed, and none that can be read; line 2: "
                 "\"elapsed time per iteration (ms):\" is followed by \"0.0 | throughput per\", expected a "
                 "number > 0."),
      std::string::npos)
      << wrong;
}

TEST(TrainingLog, StaysFiniteWhateverTheFigures) {
  std::mt19937 random(test_seed());
  constexpr int kLogs = 200, kLines = 40;
  const std::vector<std::function<std::string(int, int)>> makers{
      [](int step, int value) { return megatron_line(step, value, 1 + value % 7, "1.0", value % 2); },
      [](int step, int value) { return nemo_line(step, value); },
      [](int step, int value) { return torchtitan_line(step, value, value % 3); },
      [](int step, int value) { return deepspeed_line(step, 0.001 * value); },
      [](int step, int value) { return timer_line(step, value); }};
  for (int log = 0; log < kLogs; ++log) {
    std::string text;
    for (int line = 0; line < kLines; ++line) {
      std::string one = makers[random() % makers.size()](static_cast<int>(random() % 50),
                                                         static_cast<int>(random() % 1'000'000));
      for (auto cuts = random() % 3; cuts > 0; --cuts) one.erase(random() % one.size(), 1 + random() % 9);
      text += one;
    }
    try {
      const MeasuredRun run = read(text);
      ASSERT_GT(run.median_step(), 0);
      ASSERT_LT(run.median_step(), 1e30);
      ASSERT_LT(run.warm_up, static_cast<int>(run.step_seconds.size()));
    } catch (const Error& error) {
      ASSERT_EQ(error.cause(), Cause::kInvalidUsage);
    }
  }
}

TEST(TrainingLog, IsReadWhereAFileIsNoJson) {
  const TemporaryFolder folder;
  const std::string path = folder.file("train.log");
  std::ofstream(path) << "\n" << megatron_line(1, 900, 64) << megatron_line(2, 800, 64);
  EXPECT_EQ(load_run(path, plan_that_ran()).median_step(), 0.8);
  std::ofstream(path) << " {\"tombolo_measured\": 7}";
  EXPECT_THROW((void)load_run(path, plan_that_ran()), Error);
  EXPECT_THROW((void)load_run(folder.file("none"), plan_that_ran()), Error);
  EXPECT_THROW((void)load_run(folder.path().string(), plan_that_ran()), Error);
}

TEST(TrainingLog, OfAnotherJobThanThePlansIsRefused) {
  const auto refusal = [](const MeasuredRun& run) -> std::string {
    try {
      (void)calibrate(plan_that_ran(), {}, run);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing thrown";
  };
  MeasuredRun run;
  run.step_seconds = {1};
  run.context = 4096;
  EXPECT_EQ(refusal(run),
            "measured run: its rows have 4096 tokens, but the plan's have 8192; it is of another job");
  run.context = 8192;
  run.devices = 8;
  EXPECT_EQ(refusal(run),
            "measured run: 8 devices trained, but the plan has 16 ranks; it was measured with another");
}

}  // namespace
}  // namespace tombolo::planner
