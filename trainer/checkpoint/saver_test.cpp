#include "trainer/checkpoint/saver.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "base/temporary_folder.h"
#include "trainer/checkpoint/restore.h"
#include "trainer/checkpoint/survey.h"
#include "trainer/testing/faulty_files.h"
#include "trainer/testing/marked_stage.h"

namespace tombolo::trainer {
namespace {

using test::CrashingFiles;
using test::HookedFiles;
using test::marked_shape;
using test::Unsynced;

/// A gate at which the writing thread waits.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return open_; });
  }
  void open() {
    {
      const std::scoped_lock lock(mutex_);
      open_ = true;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

class Saver : public testing::Test {
 protected:
  std::string root() const { return folder_.path().string(); }

  /// As a start of the run finds the folder.
  SaverOptions options(std::uint64_t attempt, int keep) const {
    SaverOptions options;
    options.root = root();
    options.keep = keep;
    options.attempt = attempt;
    options.shard = {0, 1};
    options.shape = marked_shape();
    for (const FoundCheckpoint& found : survey()) {
      options.generation = std::max(options.generation, found.generation + 1);
      auto& list = found.condition == CheckpointCondition::kWhole ? options.whole : options.leftovers;
      list.insert(list.begin(), found.id);
    }
    return options;
  }
  std::vector<FoundCheckpoint> survey() const {
    return survey_checkpoints(root(), marked_shape(), nullptr, disk_);
  }

  /// The steps of the checkpoints in the folder that hold what was saved, newest first. Anything that claims
  /// to be whole must.
  std::vector<std::int64_t> usable() const {
    std::vector<std::int64_t> steps;
    for (const FoundCheckpoint& found : survey()) {
      if (found.condition != CheckpointCondition::kWhole) continue;
      const auto stage = test::marked_stage(marked_shape(), 0, 4);
      const RestoreResult restored = restore_checkpoint(found, root(), *stage, nullptr, disk_);
      EXPECT_TRUE(restored.faults.empty()) << found.text() << ": " << restored.faults.at(0);
      EXPECT_EQ(test::wrong_marks(*stage, found.id.step), 0U) << found.text();
      steps.push_back(found.id.step);
    }
    return steps;
  }

  void save(CheckpointSaver& saver, std::int64_t step) {
    test::set_marks(*stage_, step);
    saver.begin(step, *stage_, "{}");
    settle(saver, nullptr);
  }

  Log log() {
    return Log(LogLevel::kInfo, [this](LogLevel level, std::string_view text) {
      const std::scoped_lock lock(mutex_);
      logged_ += fmt::format("{}: {}\n", log_level_name(level), text);
    });
  }

  TemporaryFolder folder_;
  mutable FileSystem disk_;
  std::unique_ptr<StageCompute> stage_ = test::marked_stage(marked_shape(), 0, 4);
  std::mutex mutex_;
  std::string logged_;
};

TEST_F(Saver, CopiesTheStateAndVotesOnceTheShardIsOnTheDisk) {
  Gate gate;
  HookedFiles files([&](std::string_view call, const std::string&) {
    if (call == "sync") gate.pass();
    return 0;
  });
  CheckpointSaver saver(options(1, 2), stage_->layout(), files, log());
  EXPECT_FALSE(saver.unsettled());
  test::set_marks(*stage_, 10);
  saver.begin(10, *stage_, "{}");
  test::set_marks(*stage_, 11);  // training goes on
  EXPECT_TRUE(saver.unsettled());
  EXPECT_EQ(saver.votes().durable + saver.votes().failed, 0) << "the shard is not synced";
  saver.count({0, 0});
  EXPECT_TRUE(saver.unsettled());
  gate.open();
  saver.wait();
  EXPECT_EQ(saver.votes().durable, 1);
  EXPECT_EQ(saver.whole_step(), -1) << "other ranks may still write";
  saver.count({1, 0});
  EXPECT_FALSE(saver.unsettled());
  EXPECT_EQ(saver.whole_step(), 10);
  EXPECT_EQ(usable(), std::vector<std::int64_t>{10});
}

TEST_F(Saver, KeepsTheNewestWholeOnes) {
  HookedFiles files;
  {
    CheckpointSaver saver(options(1, 2), stage_->layout(), files, log());
    for (int step : {10, 20, 30, 40}) save(saver, step);
  }
  EXPECT_EQ(usable(), (std::vector<std::int64_t>{40, 30}));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(root()), {}), 2);
}

TEST_F(Saver, AFailureIsAWarningAndTheNextOneIsTried) {
  std::atomic<bool> full{false};
  HookedFiles files(
      [&](std::string_view call, const std::string&) { return full && call == "write" ? ENOSPC : 0; });
  CheckpointSaver saver(options(1, 1), stage_->layout(), files, log());
  save(saver, 10);
  full = true;
  save(saver, 20);
  EXPECT_EQ(saver.whole_step(), 10);
  EXPECT_NE(logged_.find("warning: checkpoint of step 20: writing"), std::string::npos) << logged_;
  EXPECT_NE(logged_.find("No space left on device"), std::string::npos) << logged_;
  EXPECT_EQ(usable(), std::vector<std::int64_t>{10}) << "the one before must stay";
  full = false;
  save(saver, 30);
  EXPECT_EQ(saver.whole_step(), 30);
}

TEST_F(Saver, OneRanksFailureRemovesTheOthersShards) {
  HookedFiles files;
  SaverOptions two = options(1, 2);
  two.shard = {0, 2};
  two.replicas = 2;
  {
    CheckpointSaver saver(two, stage_->layout(), files, log());
    test::set_marks(*stage_, 10);
    saver.begin(10, *stage_, "{}");
    saver.wait();
    saver.count({1, 0});
    EXPECT_TRUE(saver.unsettled()) << "one of two has voted";
    saver.count({1, 1});
    EXPECT_FALSE(saver.unsettled());
    EXPECT_EQ(saver.whole_step(), -1);
  }
  EXPECT_NE(logged_.find("1 of 2 ranks could not write"), std::string::npos) << logged_;
  EXPECT_TRUE(std::filesystem::is_empty(root()));
}

TEST_F(Saver, ALaterStartsCheckpointIsNewerEvenOfAnEarlierStep) {
  HookedFiles files;
  {
    CheckpointSaver saver(options(1, 3), stage_->layout(), files, log());
    for (int step : {10, 20}) save(saver, step);
  }
  {
    CheckpointSaver saver(options(2, 3), stage_->layout(), files, log());  // went back to step 10
    save(saver, 15);
  }
  EXPECT_EQ(usable(), (std::vector<std::int64_t>{15, 20, 10}));
  CheckpointSaver saver(options(3, 2), stage_->layout(), files, log());
  save(saver, 17);
  saver.begin(18, *stage_, "{}");  // which waits until the others have been removed
  settle(saver, nullptr);
  EXPECT_EQ(saver.whole().front().step, 17);
}

struct CrashCase {
  Unsynced unsynced;
  int keep;
};

class SaverCrashes : public Saver, public testing::WithParamInterface<CrashCase> {};

// Whatever call is the last: what was announced as whole can be read, and so can as many before it as are
// kept.
TEST_P(SaverCrashes, AfterAnyCallLeaveTheNewestWholeCheckpoint) {
  const auto [unsynced, keep] = GetParam();
  const std::vector<std::int64_t> steps{10, 20, 30};
  int crash_at = 0;
  for (bool crashed = true; crashed; ++crash_at) {
    std::filesystem::remove_all(root());
    std::filesystem::create_directory(root());
    std::size_t announced = 0;
    {
      CrashingFiles files(crash_at, unsynced);
      CheckpointSaver saver(options(1, keep), stage_->layout(), files, Log());
      for (const std::int64_t step : steps) {
        save(saver, step);
        if (saver.whole_step() == step) ++announced;
      }
      saver.wait();
      crashed = files.crashed();
      if (!crashed) {
        ASSERT_EQ(announced, steps.size());
      }
    }
    const std::vector<std::int64_t> left = usable();
    // What was not announced may be there all the same: then it is read too.
    if (announced > 0) {
      ASSERT_FALSE(left.empty()) << "crash at call " << crash_at;
      ASSERT_GE(left[0], steps[announced - 1]) << "crash at call " << crash_at;
      // Those that are kept before the newest one announced.
      const auto kept = std::min<std::size_t>(static_cast<std::size_t>(keep), announced);
      for (std::size_t back = 0; back < kept; ++back)
        EXPECT_NE(std::ranges::find(left, steps[announced - 1 - back]), left.end())
            << "crash at call " << crash_at << " lost step " << steps[announced - 1 - back];
    }
    // The next start clears what is left, once it has something better.
    {
      HookedFiles files;
      CheckpointSaver saver(options(2, keep), stage_->layout(), files, Log());
      save(saver, 100);
      save(saver, 200);
    }
    const std::vector<std::int64_t> then = usable();
    EXPECT_EQ(then.front(), 200);
    EXPECT_EQ(then.size(), static_cast<std::size_t>(keep));
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(root()), {}), keep)
        << "a crash at call " << crash_at << " left something for ever";
  }
  EXPECT_GT(crash_at, 25) << "too few calls to be three checkpoints";
}

INSTANTIATE_TEST_SUITE_P(Keep, SaverCrashes,
                         testing::Values(CrashCase{Unsynced::kKept, 1}, CrashCase{Unsynced::kKept, 2},
                                         CrashCase{Unsynced::kLost, 1}, CrashCase{Unsynced::kLost, 2}),
                         [](const auto& one) {
                           return fmt::format("{}UnsyncedIs{}", one.param.keep,
                                              one.param.unsynced == Unsynced::kKept ? "Kept" : "Lost");
                         });

}  // namespace
}  // namespace tombolo::trainer
