// Saves a run's state while training goes on, and removes the checkpoints that are no longer needed.
#pragma once

#include <cstdint>
#include <future>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "collectives/engine/communicator.h"
#include "trainer/checkpoint/file_system.h"
#include "trainer/checkpoint/save_votes.h"
#include "trainer/checkpoint/shard.h"
#include "trainer/checkpoint/stage_share.h"

namespace tombolo::trainer {

struct SaverOptions {
  std::string root;  ///< the run's checkpoint folder; there already
  int keep = 2;      ///< whole checkpoints that are left
  std::uint64_t attempt = 0;
  std::int64_t generation = 1;
  ShardName shard;  ///< this rank, of all
  int replica = 0, replicas = 1;
  Shape shape;
  std::string settings = "{}";  ///< as ShardHeader's
  /// Whole checkpoints that were there before, oldest first; equal on all ranks.
  std::vector<CheckpointId> whole;
  /// What starts that ended have left and nobody can read. Removed once there is something better.
  std::vector<CheckpointId> leftovers;
};

/// One rank's part in saving. Used by the thread that computes, between steps; a thread of its own writes.
/// Of the calls on which ranks must agree, all depend on the options and the added-up votes alone.
class CheckpointSaver {
 public:
  /// `files` is used by the writing thread, and outlives the object.
  CheckpointSaver(SaverOptions options, const StageParameters& layout, FileSystem& files, Log log);
  /// Waits until what is being written has been written.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  /// Begins the checkpoint from which `step` is the next to make: copies this rank's share of the state and
  /// returns. The one before must be settled. Throws what read_state() throws; what fails otherwise is logged
  /// as a warning and counted as a failed vote.
  void begin(std::int64_t step, const StageCompute& compute, const std::string& data_position);
  /// True from begin() until all ranks' votes have been counted.
  bool unsettled() const noexcept { return state_ != State::kSettled; }
  /// This rank's part of the next step's votes.
  SaveVotes votes();
  /// Takes the votes of all ranks. Once all have voted: a checkpoint that is whole displaces older ones, one
  /// that is not is removed.
  void count(const SaveVotes& all);
  /// Returns when this rank's shard is written or has failed.
  void wait();

  /// Removes leftovers, and whole checkpoints beyond those that are kept. Only where the newest is known to
  /// be good; every checkpoint that becomes whole does the same.
  void tidy();

  /// The step of the newest whole checkpoint that this object has seen made; -1 while there is none.
  std::int64_t whole_step() const noexcept { return whole_step_; }
  /// Whole checkpoints, oldest first.
  const std::vector<CheckpointId>& whole() const noexcept { return options_.whole; }

 private:
  enum class State { kSettled, kWriting, kDurable, kFailed };

  /// Takes over what the thread left, if it has ended.
  void poll();
  void finish_background();
  void remove_in_background(std::vector<CheckpointId> own, std::vector<CheckpointId> others);
  void whole_everywhere();

  SaverOptions options_;
  std::vector<SharePiece> share_;
  FileSystem& files_;
  Log log_;
  State state_ = State::kSettled;
  CheckpointId current_;
  TimePoint began_;
  std::int64_t whole_step_ = -1;
  std::vector<float> buffer_;  ///< read by the thread while it writes
  /// At most one is under way.
  std::future<std::string> writing_, removing_;
};

/// Collective: waits until the checkpoint that is unsettled is settled. Does nothing where there is none,
/// which all ranks know alike. `world`: null = a single rank. A slow disk does not run into the
/// communicator's deadline.
void settle(CheckpointSaver& saver, collectives::Communicator* world);

}  // namespace tombolo::trainer
