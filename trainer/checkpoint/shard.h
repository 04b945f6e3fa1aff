// The file that one rank writes of a checkpoint: its part of the model's state, with checksums.
//
// Numbers are little-endian. A shard is
//   byte  0  the eight characters "tmbshard"
//         8  u32 version: 1
//        12  u32 bytes of the description
//        16  u64 bytes of the data
//        24  u32 CRC-32C of the description
//        28  u32 CRC-32C of bytes 0 to 27
//        32  the description, a JSON object; spaces fill it up until the data begins at a multiple of 64
//            the data: fp32, in the order of the description's pieces
// The description says whose the shard is, what each piece of the data is, and the CRC-32C of every chunk of
// the data. A reader ignores members that it does not know.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "trainer/checkpoint/file_system.h"
#include "trainer/checkpoint/names.h"
#include "trainer/model/model.h"
#include "trainer/model/stage_compute.h"

namespace tombolo::trainer {

inline constexpr std::uint32_t kShardVersion = 1;
/// Of data with one checksum: 4 MiB. A reader takes whole chunks.
inline constexpr std::size_t kShardChunkFloats = std::size_t{1} << 20;

/// A run of elements of one state that lies in one piece in the file.
struct ShardPiece {
  StageState state = StageState::kParameters;
  std::size_t position = 0;  ///< among all the model's parameters, in a checkpoint's order
  std::size_t elements = 0;
  std::size_t offset = 0;  ///< in the shard's data, in floats
  bool operator==(const ShardPiece&) const = default;
};

struct ShardHeader {
  CheckpointId id;
  /// Counts the starts of a run in one folder, from 1: the checkpoints of a later start are newer, even where
  /// it went back to an earlier step.
  std::int64_t generation = 1;
  ShardName shard;  ///< which rank of how many wrote it
  Shape shape;
  /// True where a whole checkpoint of this run existed before this one was begun: then the run must not be
  /// begun anew because this one is incomplete.
  bool whole_before = false;
  /// A JSON object: where in the training data the next step begins.
  std::string data_position = "{}";
  /// A JSON object: with what the run was made. Checkpoints of earlier builds have none.
  std::string settings = "{}";
  /// In the order of their offsets, which leave no gap.
  std::vector<ShardPiece> pieces;
  std::size_t chunk_floats = kShardChunkFloats;
  std::vector<std::uint32_t> checksums;  ///< by chunk of the data

  std::size_t floats() const noexcept;
};

/// "parameters", "first moment", "second moment"
std::string_view state_name(StageState state) noexcept;

/// All that precedes the data in the file; fills in no checksums.
std::string encode_shard_head(const ShardHeader& header);
/// The checksum of every chunk.
std::vector<std::uint32_t> chunk_checksums(std::span<const float> data, std::size_t chunk_floats);
/// Throws kInvalidUsage saying what is wrong: too short, another magic, another version, a checksum that does
/// not fit, values that contradict each other. `head` may be any bytes. Does not name the file.
ShardHeader parse_shard_head(std::string_view head);

/// A shard whose head has been read and checked. It is open from the first chunk that is read until close()
/// only: a run of a thousand ranks has more shards than a process may have open files. One thread at a time.
class ShardFile {
 public:
  /// Reads and checks the head, and that the file is as long as that says. Throws kInvalidUsage naming the
  /// path, and the cause. `files` outlives the object.
  ShardFile(std::string path, FileSystem& files);

  const ShardHeader& header() const noexcept { return header_; }
  /// As it is in the file: what parse_shard_head() takes.
  const std::string& head() const noexcept { return head_; }
  /// One chunk of the data, which `to` must fit. Throws kInvalidUsage naming the path, where the file ends
  /// early, cannot be read, or the checksum does not fit.
  void read_chunk(std::size_t chunk, std::span<float> to);
  /// To be called after the last chunk; another read opens it again.
  void close() noexcept { file_ = Descriptor(); }

 private:
  std::string path_;
  FileSystem* files_;
  Descriptor file_;
  std::string head_;
  ShardHeader header_;
};

/// Floats of one chunk: less than chunk_floats for the last.
std::size_t floats_of_chunk(const ShardHeader& header, std::size_t chunk) noexcept;
/// Empty where `data` has the checksum of that chunk; else what is wrong.
std::string wrong_chunk(const ShardHeader& header, std::size_t chunk, std::span<const float> data);

}  // namespace tombolo::trainer
