#include "trainer/checkpoint/names.h"

#include <charconv>

#include "base/format.h"

namespace tombolo::trainer {
namespace {

constexpr std::string_view kStep = "step-", kShard = "shard-", kOf = "-of-", kEnding = ".tombolo";
constexpr std::string_view kPartial = ".partial";
constexpr std::size_t kAttemptDigits = 16;

/// Takes `text` off the front; false where it is not there.
bool take(std::string_view& from, std::string_view text) {
  if (!from.starts_with(text)) return false;
  from.remove_prefix(text.size());
  return true;
}

template <typename Number>
bool take_number(std::string_view& from, Number& number, int base = 10) {
  const auto [end, error] = std::from_chars(from.data(), from.data() + from.size(), number, base);
  if (error != std::errc{} || number < Number{0}) return false;
  from.remove_prefix(static_cast<std::size_t>(end - from.data()));
  return true;
}

}  // namespace

std::string attempt_text(std::uint64_t attempt) {
  return fmt::format("{:016x}", attempt);
}

std::string folder_name(const CheckpointId& id) {
  return fmt::format("{}{:08}-{}", kStep, id.step, attempt_text(id.attempt));
}

std::optional<CheckpointId> parse_folder_name(std::string_view name) {
  CheckpointId id;
  std::string_view rest = name;
  if (!take(rest, kStep) || !take_number(rest, id.step) || !take(rest, "-") ||
      rest.size() != kAttemptDigits || !take_number(rest, id.attempt, 16) || !rest.empty() ||
      folder_name(id) != name)
    return std::nullopt;
  return id;
}

std::string shard_name(const ShardName& shard) {
  return fmt::format("{}{}{}{}{}", kShard, shard.rank, kOf, shard.ranks, kEnding);
}

std::optional<ShardName> parse_shard_name(std::string_view name) {
  ShardName shard;
  std::string_view rest = name;
  if (!take(rest, kShard) || !take_number(rest, shard.rank) || !take(rest, kOf) ||
      !take_number(rest, shard.ranks) || rest != kEnding || shard.rank >= shard.ranks ||
      shard_name(shard) != name)
    return std::nullopt;
  return shard;
}

std::string partial_name(const ShardName& shard) {
  return shard_name(shard) + std::string(kPartial);
}

bool is_partial_name(std::string_view name) {
  return name.ends_with(kPartial) && parse_shard_name(name.substr(0, name.size() - kPartial.size()));
}

}  // namespace tombolo::trainer
