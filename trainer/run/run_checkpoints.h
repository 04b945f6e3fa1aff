// A run's checkpoints: where it starts, when it saves, and what is there when it ends.
#pragma once

#include <memory>
#include <string>

#include "base/json.h"
#include "base/log.h"
#include "collectives/engine/communicator.h"
#include "trainer/checkpoint/file_system.h"
#include "trainer/checkpoint/run_lock.h"
#include "trainer/checkpoint/saver.h"
#include "trainer/checkpoint/survey.h"
#include "trainer/pipeline/pipeline_trainer.h"

namespace tombolo::trainer {

inline constexpr const char* kResumeAuto = "auto";

struct CheckpointOptions {
  std::string folder;  ///< shared by all ranks, or on each host's own disk; empty = nothing is saved
  int every = 100;     ///< steps
  int keep = 2;        ///< whole checkpoints that are left
  /// kResumeAuto: the newest whole checkpoint in `folder`, or a new run where none was ever made. Else the
  /// folder of one checkpoint. Empty: a new run, which refuses a folder that holds checkpoints.
  std::string resume;
  /// Throws kInvalidUsage naming the option that is out of range or lacks another.
  void check() const;
};

/// Used by the thread that computes. All ranks make the same calls in the same order.
class RunCheckpoints {
 public:
  /// Collective over `world` (null = a single rank). Restores the trainer's state where the options say so.
  /// Throws kInvalidUsage, on every rank, where another run holds the folder, a new run would displace
  /// checkpoints, or none that is asked for is usable, naming what is wrong with each; and what surveying
  /// throws. `job`, `trainer`, `world` and `files` outlive the object.
  RunCheckpoints(const CheckpointOptions& options, const Job& job, PipelineTrainer& trainer,
                 collectives::Communicator* world, FileSystem& files, const Log& log);

  /// The step to begin with: 0 for a new run.
  int first_step() const noexcept { return first_step_; }
  /// For the next step.
  SaveVotes votes() { return saver_ ? saver_->votes() : SaveVotes{}; }
  /// True where after_step() will begin a checkpoint.
  bool begins_after(const StepReport& report) const noexcept;
  /// Takes the votes that the step added up, and begins a checkpoint where one is due. Collective where the
  /// one before has not been settled by then.
  void after_step(const StepReport& report);
  /// Collective: saves what follows the step before `next_step`, unless that has been done, and waits until
  /// it is settled. False where the last state could not be saved.
  bool finish(int next_step);

 private:
  void start(const CheckpointOptions& options);
  /// Collective. The lock is rank 0's.
  void lock_folder();
  void refuse_to_displace() const;
  void resume_newest();
  void resume_from(const std::string& folder);
  /// True where the checkpoint is now the state; else adds what is wrong to its faults.
  bool restore(FoundCheckpoint& found, const std::string& root);
  std::unique_ptr<CheckpointSaver> make_saver(const CheckpointOptions& options, const Log& log);
  void begin(int next_step);

  const Job& job_;
  PipelineTrainer& trainer_;
  collectives::Communicator* world_;
  FileSystem& files_;
  Log log_;       ///< silent but on rank 0
  Log rank_log_;  ///< of every rank
  std::string folder_;
  int every_ = 1;
  Json settings_;  ///< of this start of the run
  int first_step_ = 0;
  int begun_ = 0;          ///< the step of the checkpoint begun last
  CheckpointId restored_;  ///< where first_step_ is not 0
  std::vector<FoundCheckpoint> found_;
  std::unique_ptr<RunLock> lock_;           ///< before saver_, which writes until it is destroyed
  std::unique_ptr<CheckpointSaver> saver_;  ///< null where nothing is saved
};

}  // namespace tombolo::trainer
