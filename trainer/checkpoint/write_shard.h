// A shard's way to the disk: all of it, or nothing that a reader could take for it.
#pragma once

#include <span>
#include <string>

#include "trainer/checkpoint/file_system.h"
#include "trainer/checkpoint/shard.h"

namespace tombolo::trainer {

/// Writes `root`/<step folder>/<shard>: under another name, synced, renamed, and the folders synced. Fills in
/// the header's checksums. Returns an empty text once all of it would outlast a power cut; else what failed,
/// where and why. Then it has removed what it could of its file.
std::string write_shard(FileSystem& files, const std::string& root, ShardHeader header,
                        std::span<const float> data);

/// Removes this shard, whole or partial, and the checkpoint's folder where nothing else is in it. Returns
/// what failed.
std::string remove_shard(FileSystem& files, const std::string& root, const CheckpointId& id,
                         const ShardName& shard);

/// Removes every shard, whole or partial, that lies in the folder, and the folder where nothing else is in
/// it. Returns what failed.
std::string remove_checkpoint(FileSystem& files, const std::string& root, const CheckpointId& id);

}  // namespace tombolo::trainer
