// The names of what lies in a run's checkpoint folder:
//   step-00000100-0123456789abcdef/shard-3-of-8.tombolo
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tombolo::trainer {

/// Which checkpoint: that of which step, made by which start of the run.
struct CheckpointId {
  std::int64_t step = 0;      ///< the number of the next step to make
  std::uint64_t attempt = 0;  ///< random; every start of a run draws one, equal on all its ranks
  bool operator==(const CheckpointId&) const = default;
};

/// "0123456789abcdef"
std::string attempt_text(std::uint64_t attempt);
/// "step-00000100-0123456789abcdef"
std::string folder_name(const CheckpointId& id);
/// Nothing where the text is no such name.
std::optional<CheckpointId> parse_folder_name(std::string_view name);

struct ShardName {
  int rank = 0, ranks = 0;
  bool operator==(const ShardName&) const = default;
};

/// "shard-3-of-8.tombolo"
std::string shard_name(const ShardName& shard);
std::optional<ShardName> parse_shard_name(std::string_view name);
/// What a shard is called until all of it is on the disk.
std::string partial_name(const ShardName& shard);
bool is_partial_name(std::string_view name);

}  // namespace tombolo::trainer
