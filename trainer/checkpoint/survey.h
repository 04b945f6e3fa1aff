// What the ranks together see in a run's checkpoint folder. It may be one folder that all share, or one on
// each host's own disk.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collectives/engine/communicator.h"
#include "trainer/checkpoint/file_system.h"
#include "trainer/checkpoint/names.h"
#include "trainer/model/model.h"

namespace tombolo::trainer {

enum class CheckpointCondition {
  kWhole,       ///< some rank sees each of its shards, and every head is right; the data has not been read
  kIncomplete,  ///< shards are missing, and those that are there are right
  kDamaged,     ///< a shard is not what was written
  kOther,       ///< of another model
};

struct FoundCheckpoint {
  CheckpointId id;
  CheckpointCondition condition = CheckpointCondition::kIncomplete;
  std::int64_t generation = 0;  ///< 0 where no head could be read
  bool whole_before = false;    ///< a whole one of the same run came before it
  int ranks = 0;                ///< of the run that wrote it
  /// By shard: a rank that has read its head and found it right; -1 = none has.
  std::vector<int> seen_by;
  /// What is wrong, in words that name the shards.
  std::vector<std::string> faults;

  /// "step 100 (step-00000100-...): shard ...: ...", for messages.
  std::string text() const;
};

/// Collective over `world` (null = a single rank): equal on all ranks, newest first, that is by generation,
/// then by step. `root` may be another path on each rank. Given `only`, looks at no other checkpoint. Throws
/// kSystem, on every rank, naming the ranks whose folder cannot be read.
///
/// Every rank lists the folder; the head of a shard is read by one of the ranks that see it, and by the
/// others only where it is not right there: a file system that all share is asked once for each.
std::vector<FoundCheckpoint> survey_checkpoints(const std::string& root, const Shape& shape,
                                                collectives::Communicator* world, FileSystem& files,
                                                std::optional<CheckpointId> only = std::nullopt);

/// Collective: the texts of all ranks, by rank. Long ones are cut, so that every rank can have them.
std::vector<std::string> texts_of_ranks(const std::string& own, collectives::Communicator* world);

}  // namespace tombolo::trainer
