// Reads a checkpoint into the stages of any layout.
#pragma once

#include <string>
#include <vector>

#include "collectives/engine/communicator.h"
#include "trainer/checkpoint/survey.h"
#include "trainer/model/stage_compute.h"

namespace tombolo::trainer {

struct RestoreResult {
  /// Empty where every rank has all of its state; else what was wrong, on which ranks. Equal on all ranks.
  std::vector<std::string> faults;
  /// As ShardHeader's; empty where there are faults.
  std::string data_position, settings;
  bool read_directly = false;  ///< each rank by itself; else the shards went over the network
};

/// Collective over `world` (null = a single rank). `found` is whole; `root` is this rank's checkpoint folder.
/// Of each shard the rank that the survey found reads the head, and broadcasts it. Where every rank sees all
/// the shards that it needs, each reads them; else that same rank reads the data too, and broadcasts it to
/// all. Every chunk's checksum is checked before it is used. After faults the stages' states are undefined:
/// restore another checkpoint.
RestoreResult restore_checkpoint(const FoundCheckpoint& found, const std::string& root, StageCompute& compute,
                                 collectives::Communicator* world, FileSystem& files);

}  // namespace tombolo::trainer
