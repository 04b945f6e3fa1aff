#include "trainer/checkpoint/survey.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/error.h"
#include "base/json.h"
#include "collectives/engine/gather_texts.h"
#include "trainer/checkpoint/patience.h"
#include "trainer/checkpoint/shard.h"

namespace tombolo::trainer {
namespace {

constexpr std::size_t kMostText = std::size_t{1} << 19;
/// Faults of one checkpoint that a rank tells of: with one disk gone all its shards have one.
constexpr std::size_t kMostFaults = 4;

/// One checkpoint as a single rank sees it.
struct Seen {
  std::int64_t generation = 0;
  bool whole_before = false;
  bool other_model = false;
  int ranks = 0;
  std::vector<int> right;             ///< shards whose head is right
  std::map<int, std::string> faults;  ///< by shard
};

void look_at_shard(const std::string& path, const CheckpointId& id, const ShardName& name, const Shape& shape,
                   Seen& seen) {
  try {
    const ShardFile file(path);
    const ShardHeader& header = file.header();
    if (header.id != id || header.shard != name)
      fail(Cause::kInvalidUsage, "{}: it says that it is {} of {}: renamed?", path, shard_name(header.shard),
           folder_name(header.id));
    if (header.shape != shape) {
      seen.other_model = true;
      fail(Cause::kInvalidUsage, "{}: it is of a model of {}, but this run's has {}", path,
           header.shape.text(), shape.text());
    }
    seen.generation = std::max(seen.generation, header.generation);
    seen.whole_before |= header.whole_before;
    seen.right.push_back(name.rank);
  } catch (const Error& error) {
    if (seen.faults.size() < kMostFaults) seen.faults[name.rank] = error.what();
  }
}

Seen look_at_checkpoint(const std::filesystem::path& folder, const CheckpointId& id, const Shape& shape) {
  Seen seen;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const auto name = parse_shard_name(entry->path().filename().string());
    if (!name) continue;
    // One start of a run has one number of ranks.
    if (seen.ranks != 0 && seen.ranks != name->ranks)
      seen.faults[name->rank] =
          fmt::format("{}: there are shards of {} and of {} ranks", folder.string(), seen.ranks, name->ranks);
    seen.ranks = std::max(seen.ranks, name->ranks);
    look_at_shard(entry->path().string(), id, *name, shape, seen);
  }
  if (error) seen.faults[-1] = fmt::format("{}: {}", folder.string(), error.message());
  return seen;
}

/// Numbers as "0-2,5": a rank that sees all shards of a thousand says so in a few characters.
Json ranges_of(std::vector<int> numbers) {
  std::ranges::sort(numbers);
  Json ranges = Json::array();
  for (const int number : numbers) {
    if (!ranges.empty() && ranges.back()[1] == number - 1)
      ranges.back()[1] = number;
    else
      ranges.push_back({number, number});
  }
  return ranges;
}

/// Everything that this rank sees, as JSON for the others.
Json look(const std::string& root, const Shape& shape, std::optional<CheckpointId> only) {
  Json checkpoints = Json::object();
  std::error_code error;
  std::filesystem::directory_iterator entry(root, error);
  for (const std::filesystem::directory_iterator end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const auto id = parse_folder_name(name);
    if (!id || (only && *id != *only)) continue;
    const Seen seen = look_at_checkpoint(entry->path(), *id, shape);
    Json faults = Json::array();
    for (const auto& [shard, fault] : seen.faults) faults.push_back({shard, fault});
    checkpoints[name] = {{"generation", seen.generation},   {"whole_before", seen.whole_before},
                         {"other_model", seen.other_model}, {"ranks", seen.ranks},
                         {"right", ranges_of(seen.right)},  {"faults", std::move(faults)}};
  }
  // On a disk of its own a host may have none.
  if (error && error.value() != ENOENT)
    return {{"error", fmt::format("checkpoint folder {}: {}", root, error.message())}};
  return {{"checkpoints", std::move(checkpoints)}};
}

/// Adds what `rank` sees of a checkpoint.
void merge(FoundCheckpoint& into, std::map<int, std::string>& faults, bool& other_model, const Json& seen,
           int rank) {
  into.generation = std::max(into.generation, seen["generation"].get<std::int64_t>());
  into.whole_before |= seen["whole_before"].get<bool>();
  other_model |= seen["other_model"].get<bool>();
  into.ranks = std::max(into.ranks, seen["ranks"].get<int>());
  into.seen_by.resize(static_cast<std::size_t>(into.ranks), -1);
  for (const Json& range : seen["right"])
    for (int shard = range[0]; shard <= range[1].get<int>(); ++shard) {
      int& by = into.seen_by[static_cast<std::size_t>(shard)];
      if (by < 0) by = rank;
    }
  for (const Json& fault : seen["faults"]) faults.try_emplace(fault[0].get<int>(), fault[1]);
}

void judge(FoundCheckpoint& found, const std::map<int, std::string>& faults, bool other_model) {
  // A shard that is wrong where one rank looks and right where another does is right.
  for (const auto& [shard, fault] : faults)
    if (shard < 0 || found.seen_by[static_cast<std::size_t>(shard)] < 0) found.faults.push_back(fault);
  std::vector<int> missing;
  for (int shard = 0; shard < found.ranks; ++shard)
    if (found.seen_by[static_cast<std::size_t>(shard)] < 0 && !faults.contains(shard))
      missing.push_back(shard);
  if (!found.faults.empty())
    found.condition = other_model ? CheckpointCondition::kOther : CheckpointCondition::kDamaged;
  else
    found.condition =
        missing.empty() && found.ranks > 0 ? CheckpointCondition::kWhole : CheckpointCondition::kIncomplete;
  if (!missing.empty())
    found.faults.push_back(
        fmt::format("no rank sees shard {} of {} intact", fmt::join(missing, ", "), found.ranks));
  if (found.ranks == 0) found.faults.push_back("it holds no shard");
}

}  // namespace

std::string FoundCheckpoint::text() const {
  return fmt::format("step {} ({}){}{}", id.step, folder_name(id), faults.empty() ? "" : ": ",
                     fmt::join(faults, "; "));
}

std::vector<std::string> texts_of_ranks(const std::string& own, collectives::Communicator* world) {
  if (world == nullptr) return {own};
  return collectives::gather_texts(*world, own.substr(0, kMostText));
}

std::vector<FoundCheckpoint> survey_checkpoints(const std::string& root, const Shape& shape,
                                                collectives::Communicator* world,
                                                std::optional<CheckpointId> only) {
  std::string own;
  work_with_patience(
      world, [&] { own = look(root, shape, only).dump(-1, ' ', false, Json::error_handler_t::replace); });
  if (own.size() > kMostText)
    own = Json{{"error", fmt::format("checkpoint folder {}: too many checkpoints in it; remove some", root)}}
              .dump(-1, ' ', false, Json::error_handler_t::replace);
  const std::vector<std::string> texts = texts_of_ranks(own, world);

  std::map<std::string, FoundCheckpoint> merged;
  std::map<std::string, std::map<int, std::string>> faults;
  std::map<std::string, bool> other_model;
  std::vector<std::string> errors;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    const Json json = parse_peer_json(texts[rank], fmt::format("rank {}'s list of checkpoints", rank));
    if (json.contains("error")) {
      errors.push_back(fmt::format("rank {}: {}", rank, json["error"].get<std::string>()));
      continue;
    }
    for (const auto& [name, seen] : json["checkpoints"].items())
      merge(merged[name], faults[name], other_model[name], seen, static_cast<int>(rank));
  }
  if (!errors.empty()) fail(Cause::kSystem, "{}", fmt::join(errors, "; "));

  std::vector<FoundCheckpoint> found;
  for (auto& [name, checkpoint] : merged) {
    checkpoint.id = *parse_folder_name(name);
    judge(checkpoint, faults[name], other_model[name]);
    found.push_back(std::move(checkpoint));
  }
  std::ranges::sort(found, [](const FoundCheckpoint& a, const FoundCheckpoint& b) {
    return std::tuple(a.generation, a.id.step, a.id.attempt) >
           std::tuple(b.generation, b.id.step, b.id.attempt);
  });
  return found;
}

}  // namespace tombolo::trainer
