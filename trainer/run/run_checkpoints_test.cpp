// Runs that end and go on. Ranks are threads; their bytes go over loopback.
#include "trainer/run/run_checkpoints.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <mutex>
#include <random>

#include "base/randomized_test.h"
#include "base/temporary_folder.h"
#include "collectives/testing/test_support.h"
#include "trainer/testing/expect_refusal.h"
#include "trainer/testing/faulty_files.h"

namespace tombolo::trainer {
namespace {

using collectives::Communicator;
using test::expect_refusal;

class RunCheckpointsTest : public testing::Test {
 protected:
  RunCheckpointsTest() {
    job_.shape.context = 12;
    job_.shape.padded_vocabulary = 256;
    job_.shape.layers = 4;
    job_.shape.heads = 2;
    job_.shape.width = 16;
    job_.optimizer.learning_rate = 3e-3;
    job_.optimizer.weight_decay = 0.1;
    job_.optimizer.clip = 0.5;
    job_.optimizer.warmup = 3;
    job_.data = folder_.file("text");
    job_.parallel = even_parallel_config(job_.shape, 1, 1, kBatch, 2);
    std::mt19937 random(test_seed(1));
    std::string text;
    while (text.size() < 3000) text += std::array{"ab ", "stone ", "water\n", "the "}[random() % 4];
    folder_.write("text", text);
    options_.folder = folder_.file("run");
    options_.every = 3;
  }

  struct Run {
    int first_step = 0;
    std::vector<double> losses, norms;
    std::vector<float> parameters;
    bool finished = false;
    std::string logged;
  };
  enum class End {
    kFinished,
    kKilled,  ///< what is being written is written, and nothing is settled
  };

  /// One start of the run, in `layout`.
  Run start(const CheckpointOptions& options, int steps, End end, const ParallelConfig& layout) {
    Job job = job_;
    job.parallel = layout;
    Run run;
    std::mutex mutex;
    const Log log(LogLevel::kInfo, [&](LogLevel level, std::string_view text) {
      const std::scoped_lock lock(mutex);
      run.logged += fmt::format("{}: {}\n", log_level_name(level), text);
    });
    const auto body = [&](Communicator* world) {
      Timeline timeline(Clock::steady().now());
      PipelineTrainer trainer(job, world, timeline);
      RunCheckpoints checkpoints(options, job, trainer, world, files_, log);
      std::vector<double> losses, norms;
      for (int step = checkpoints.first_step(); step < steps; ++step) {
        const StepReport report = trainer.step(step, false, checkpoints.votes());
        losses.push_back(report.loss);
        norms.push_back(report.gradient_norm);
        checkpoints.after_step(report);
      }
      const bool finished = end == End::kFinished && checkpoints.finish(steps);
      std::vector<float> parameters = trainer.gather();
      if (world != nullptr) world->barrier();
      if (world != nullptr && world->rank() != 0) return;
      const std::scoped_lock lock(mutex);
      run.first_step = checkpoints.first_step();
      run.losses = losses;
      run.norms = norms;
      run.parameters = std::move(parameters);
      run.finished = finished;
    };
    if (layout.ranks() == 1) {
      body(nullptr);
      return run;
    }
    const auto on_one_host = [](collectives::Options& settings) {
      settings.router.host.name = "here";
      settings.identity.local_rank = settings.identity.rank;
    };
    collectives::test::expect_fine(collectives::test::run_ranks(
        std::string(static_cast<std::size_t>(layout.ranks()), 'A'),
        [&](Communicator& world) { body(&world); }, on_one_host));
    return run;
  }
  Run start(int steps, End end = End::kFinished) { return start(options_, steps, end, job_.parallel); }
  Run resume(int steps, End end = End::kFinished) {
    CheckpointOptions options = options_;
    options.resume = kResumeAuto;
    return start(options, steps, end, job_.parallel);
  }
  CheckpointOptions resuming(const std::string& from) const {
    CheckpointOptions options = options_;
    options.resume = from;
    return options;
  }

  /// The folder of the run's checkpoint of this step.
  std::filesystem::path checkpoint(std::int64_t step) const {
    for (const auto& entry : std::filesystem::directory_iterator(options_.folder)) {
      const auto id = parse_folder_name(entry.path().filename().string());
      if (id && id->step == step) return entry.path();
    }
    ADD_FAILURE() << "no checkpoint of step " << step;
    return {};
  }
  /// How many lie in the folder, of any kind.
  int checkpoints() const {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(options_.folder))
      count += entry.path().filename() != kLockName ? 1 : 0;
    return count;
  }
  void cut_short(std::int64_t step) const {
    const auto shard = checkpoint(step) / "shard-0-of-1.tombolo";
    std::filesystem::resize_file(shard, std::filesystem::file_size(shard) - 10);
  }

  static constexpr int kBatch = 8;
  TemporaryFolder folder_;
  Job job_;
  CheckpointOptions options_;
  test::HookedFiles files_;
};

TEST_F(RunCheckpointsTest, ARunThatGoesOnIsTheUninterruptedOneToTheBit) {
  for (const auto& [stages, replicas] : {std::pair{1, 1}, std::pair{2, 2}, std::pair{4, 1}}) {
    const ParallelConfig layout = even_parallel_config(job_.shape, stages, replicas, kBatch, 2);
    CheckpointOptions none;
    const Run whole = start(none, 12, End::kFinished, layout);
    options_.folder = folder_.file(fmt::format("run{}x{}", stages, replicas));
    start(options_, 8, End::kKilled, layout);
    const Run second = start(resuming(kResumeAuto), 10, End::kKilled, layout);
    EXPECT_EQ(second.first_step, 6);
    const Run third = start(resuming(kResumeAuto), 12, End::kFinished, layout);
    EXPECT_EQ(third.first_step, 9);
    EXPECT_TRUE(third.finished);
    for (const Run* run : {&second, &third})
      for (std::size_t at = 0; at < run->losses.size(); ++at) {
        const std::size_t step = static_cast<std::size_t>(run->first_step) + at;
        EXPECT_EQ(run->losses[at], whole.losses[step]) << "step " << step;
        EXPECT_EQ(run->norms[at], whole.norms[step]) << "step " << step;
      }
    EXPECT_EQ(third.parameters, whole.parameters);
  }
}

TEST_F(RunCheckpointsTest, TheLayoutMayChangeBetweenStarts) {
  const Run whole = start(CheckpointOptions{}, 12, End::kFinished, job_.parallel);
  start(3);
  int step = 3;
  for (const auto& [stages, replicas] : {std::pair{2, 2}, std::pair{4, 1}, std::pair{1, 1}}) {
    const Run run = start(resuming(kResumeAuto), step + 3, End::kFinished,
                          even_parallel_config(job_.shape, stages, replicas, kBatch, 2));
    EXPECT_EQ(run.first_step, step);
    for (std::size_t at = 0; at < run.losses.size(); ++at)
      EXPECT_NEAR(run.losses[at], whole.losses[static_cast<std::size_t>(step) + at], 1e-4);
    step += 3;
  }
}

TEST_F(RunCheckpointsTest, TwoRunsDoNotShareAFolder) {
  {
    Timeline timeline(Clock::steady().now());
    PipelineTrainer trainer(job_, nullptr, timeline);
    const RunCheckpoints first(options_, job_, trainer, nullptr, files_, Log());
    expect_refusal([&] { resume(3); }, {options_.folder.c_str(), "another run is using",
                                        fmt::format("process {} on ", ::getpid()).c_str()});
    EXPECT_EQ(checkpoints(), 0);
  }
  for (const int ranks : {1, 2}) {
    const ParallelConfig layout = even_parallel_config(job_.shape, ranks, 1, kBatch, 2);
    const Run run = start(resuming(kResumeAuto), 3 * ranks, End::kFinished, layout);
    EXPECT_EQ(run.first_step, 3 * (ranks - 1));
    EXPECT_EQ(run.logged.find("lock"), std::string::npos) << run.logged;
  }
}

TEST_F(RunCheckpointsTest, AFolderThatCannotBeLockedIsUsedAllTheSame) {
  test::HookedFiles files(
      [](std::string_view call, const std::string&) { return call == "lock" ? ENOLCK : 0; });
  std::string logged;
  const Log log(LogLevel::kWarning,
                [&](LogLevel, std::string_view text) { logged += fmt::format("{}\n", text); });
  Timeline timeline(Clock::steady().now());
  PipelineTrainer trainer(job_, nullptr, timeline);
  RunCheckpoints checkpoints(options_, job_, trainer, nullptr, files, log);
  checkpoints.after_step(trainer.step(0, false, checkpoints.votes()));
  EXPECT_TRUE(checkpoints.finish(1));
  EXPECT_NE(logged.find(options_.folder + "/lock: cannot be locked"), std::string::npos) << logged;
}

TEST_F(RunCheckpointsTest, ANewRunDisplacesNothing) {
  start(3);
  expect_refusal([&] { start(6); }, {"holds checkpoints", "step 3 (step-00000003-", "--resume auto"});
  EXPECT_EQ(resume(6).first_step, 3);
}

TEST_F(RunCheckpointsTest, AutoBeginsAnewOnlyWhereNoneWasEverWhole) {
  EXPECT_EQ(resume(3, End::kFinished).first_step, 0);
  // A first checkpoint that was never completed.
  std::filesystem::remove(checkpoint(3) / "shard-0-of-1.tombolo");
  std::ofstream(checkpoint(3) / "shard-0-of-1.tombolo.partial") << "half";
  const Run again = resume(6);
  EXPECT_EQ(again.first_step, 0);
  EXPECT_NE(again.logged.find("a new run"), std::string::npos) << again.logged;
  // The second start has cleared what the first one left. Now step 6 says that there was one before it.
  EXPECT_EQ(resume(6).first_step, 6);
  cut_short(3);
  cut_short(6);
  expect_refusal([&] { resume(9); },
                 {"no checkpoint in", "can be used", "step 3 (", "step 6 (", "cut short"});
  std::filesystem::remove_all(checkpoint(3));
  expect_refusal([&] { resume(9); }, {"step 6 (", "cut short"});
}

TEST_F(RunCheckpointsTest, AShardThatIsMissingFromALaterCheckpointIsNoNewRun) {
  const ParallelConfig layout = even_parallel_config(job_.shape, 2, 1, kBatch, 2);
  start(options_, 6, End::kFinished, layout);
  std::filesystem::remove_all(checkpoint(3));
  std::filesystem::remove(checkpoint(6) / "shard-1-of-2.tombolo");
  expect_refusal([&] { start(resuming(kResumeAuto), 9, End::kFinished, job_.parallel); },
                 {"no rank sees shard 1 of 2"});
}

TEST_F(RunCheckpointsTest, AFinishedRunThatIsStartedAgainTidiesUp) {
  options_.keep = 3;
  start(9);
  std::filesystem::create_directory(std::filesystem::path(options_.folder) / folder_name({7, 7}));
  options_.keep = 2;
  EXPECT_EQ(resume(9).losses.size(), 0U);
  EXPECT_EQ(checkpoints(), 2);
  EXPECT_EQ(resume(10).first_step, 9);
}

TEST_F(RunCheckpointsTest, ADamagedCheckpointIsNamedAndTheOneBeforeTaken) {
  start(6);
  const auto shard = checkpoint(6) / "shard-0-of-1.tombolo";
  std::string bytes = folder_.read(std::filesystem::relative(shard, folder_.path()).string());
  bytes[bytes.size() - 100] ^= 1;
  std::ofstream(shard, std::ios::binary) << bytes;
  const Run run = resume(6);
  EXPECT_EQ(run.first_step, 3);
  for (const char* words :
       {"warning: the checkpoint of step 6 (", "checksum of chunk", "going on from step 3"})
    EXPECT_NE(run.logged.find(words), std::string::npos) << run.logged;
  EXPECT_EQ(checkpoints(), 2) << "the damaged one is cleared once there is a better one";
}

TEST_F(RunCheckpointsTest, ACertainCheckpointMayBeAskedFor) {
  options_.keep = 5;
  const Run whole = start(9);
  const Run back = start(resuming(checkpoint(3).string() + "/"), 5, End::kFinished, job_.parallel);
  EXPECT_EQ(back.first_step, 3);
  EXPECT_EQ(back.losses[0], whole.losses[3]);
  EXPECT_EQ(resume(6).first_step, 5) << "the newest is that of the later start";
  CheckpointOptions elsewhere;
  elsewhere.resume = checkpoint(9).string();
  EXPECT_EQ(start(elsewhere, 10, End::kFinished, job_.parallel).first_step, 9);
  const auto refused = [&](const std::string& path, const char* words) {
    expect_refusal([&] { start(resuming(path), 12, End::kFinished, job_.parallel); }, {path.c_str(), words});
  };
  refused(options_.folder, "step-STEP-ATTEMPT");
  refused(options_.folder + "/" + folder_name({7, 7}), "no rank sees");
}

TEST_F(RunCheckpointsTest, AnotherModelsCheckpointsAreRefusedAndLeftAlone) {
  start(3);
  job_.shape.layers = 2;
  job_.parallel = even_parallel_config(job_.shape, 1, 1, kBatch, 2);
  expect_refusal([&] { resume(6); }, {"4 layers", "2 layers"});
  expect_refusal([&] { start(6); }, {"holds checkpoints"});
  EXPECT_TRUE(std::filesystem::exists(checkpoint(3) / "shard-0-of-1.tombolo"));
}

TEST_F(RunCheckpointsTest, OtherRowsOfDataAreAWarning) {
  start(3);
  job_.parallel = even_parallel_config(job_.shape, 1, 1, 4, 2);
  const Run run = resume(4);
  EXPECT_NE(run.logged.find("reads other rows"), std::string::npos) << run.logged;
  EXPECT_EQ(start(resuming(kResumeAuto), 5, End::kFinished, job_.parallel).logged.find("other rows"),
            std::string::npos);
}

TEST_F(RunCheckpointsTest, OtherSettingsAreAWarningThatNamesThem) {
  EXPECT_EQ(start(3).logged.find("other settings"), std::string::npos);
  job_.optimizer.learning_rate = 0.25;
  const Run run = resume(4);
  EXPECT_NE(run.logged.find("other settings than the one that it goes on from: lr 0.003, now 0.25\n"),
            std::string::npos)
      << run.logged;
  EXPECT_EQ(resume(5).logged.find("other settings"), std::string::npos) << "it has been told";
}

TEST_F(RunCheckpointsTest, ADiskThatIsFullEndsNothingButIsToldAtTheEnd) {
  std::atomic<bool> full{false};
  test::HookedFiles files(
      [&](std::string_view call, const std::string&) { return full && call == "write" ? ENOSPC : 0; });
  Timeline timeline(Clock::steady().now());
  PipelineTrainer trainer(job_, nullptr, timeline);
  RunCheckpoints checkpoints(options_, job_, trainer, nullptr, files, Log());
  const auto train_to = [&](int from, int to) {
    for (int step = from; step < to; ++step)
      checkpoints.after_step(trainer.step(step, false, checkpoints.votes()));
  };
  train_to(0, 4);
  full = true;
  train_to(4, 8);
  EXPECT_FALSE(checkpoints.finish(8));
  full = false;
  train_to(8, 10);
  EXPECT_TRUE(checkpoints.finish(10));
}

TEST_F(RunCheckpointsTest, OptionsThatMakeNoSenseAreRefused) {
  CheckpointOptions options;
  options.resume = kResumeAuto;
  expect_refusal([&] { options.check(); }, {"--resume auto", "no --checkpoint"});
  options.folder = "x";
  options.check();
  options.every = 0;
  expect_refusal([&] { options.check(); }, {"--every 0"});
  options.every = 1;
  options.keep = 0;
  expect_refusal([&] { options.check(); }, {"--keep 0"});
  folder_.write("file", "");
  options_.folder = folder_.file("file");
  expect_refusal([&] { start(1); }, {"--checkpoint", "file", "rank 0 cannot write there"});
}

}  // namespace
}  // namespace tombolo::trainer
