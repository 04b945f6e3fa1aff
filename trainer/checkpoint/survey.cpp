#include "trainer/checkpoint/survey.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
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

/// What heads of one checkpoint's shards say.
struct Heads {
  std::int64_t generation = 0;
  bool whole_before = false;
  bool other_model = false;
  std::map<int, int> right;           ///< by shard: the rank that has found its head right
  std::map<int, std::string> faults;  ///< by shard; -1 = of them all
};

/// One checkpoint as all ranks see it.
struct Merged {
  std::map<int, std::map<int, std::vector<int>>> seen_by;  ///< by number of ranks and shard: the ranks
  Heads heads;

  int ranks() const { return seen_by.empty() ? 0 : seen_by.rbegin()->first; }
};
using Checkpoints = std::map<std::string, Merged>;  ///< by the name of the folder

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

template <typename Visit>
void each_of(const Json& ranges, Visit visit) {
  for (const Json& range : ranges)
    for (int number = range[0]; number <= range[1].get<int>(); ++number) visit(number);
}

/// The names of the shards in one folder, as JSON for the other ranks.
Json list_shards(const std::filesystem::path& folder) {
  std::map<int, std::vector<int>> shards;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    if (const auto name = parse_shard_name(entry->path().filename().string()))
      shards[name->ranks].push_back(name->rank);
  Json listed{{"shards", Json::array()}};
  for (auto& [ranks, numbers] : shards) listed["shards"].push_back({ranks, ranges_of(std::move(numbers))});
  if (error) listed["fault"] = fmt::format("{}: {}", folder.string(), error.message());
  return listed;
}

/// The names of everything in this rank's folder.
Json list(const std::string& root, std::optional<CheckpointId> only) {
  Json checkpoints = Json::object();
  std::error_code error;
  std::filesystem::directory_iterator entry(root, error);
  for (const std::filesystem::directory_iterator end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const auto id = parse_folder_name(name);
    if (id && (!only || *id == *only)) checkpoints[name] = list_shards(entry->path());
  }
  // On a disk of its own a host may have none.
  if (error && error.value() != ENOENT)
    return {{"error", fmt::format("checkpoint folder {}: {}", root, error.message())}};
  return {{"checkpoints", std::move(checkpoints)}};
}

/// Collective: this rank's `own` from every rank, where `own` is made with patience.
std::vector<Json> exchange(const std::string& root, collectives::Communicator* world,
                           const std::function<Json()>& make) {
  const auto text_of = [](const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  std::string own;
  work_with_patience(world, [&] { own = text_of(make()); });
  if (own.size() > kMostText)
    own = text_of(
        {{"error", fmt::format("checkpoint folder {}: too many checkpoints in it; remove some", root)}});
  std::vector<Json> all;
  std::vector<std::string> errors;
  for (const std::string& text : texts_of_ranks(own, world)) {
    all.push_back(parse_peer_json(text, fmt::format("rank {}'s list of checkpoints", all.size())));
    if (all.back().contains("error"))
      errors.push_back(fmt::format("rank {}: {}", all.size() - 1, all.back()["error"].get<std::string>()));
  }
  if (!errors.empty()) fail(Cause::kSystem, "{}", fmt::join(errors, "; "));
  return all;
}

Checkpoints merge_lists(const std::vector<Json>& lists) {
  Checkpoints merged;
  for (std::size_t rank = 0; rank < lists.size(); ++rank)
    for (const auto& [name, listed] : lists[rank]["checkpoints"].items()) {
      Merged& into = merged[name];
      for (const Json& of : listed["shards"])
        each_of(of[1], [&](int shard) { into.seen_by[of[0]][shard].push_back(static_cast<int>(rank)); });
      if (listed.contains("fault")) into.heads.faults.try_emplace(-1, listed["fault"].get<std::string>());
    }
  for (auto& [name, into] : merged)  // one start of a run has one number of ranks
    if (into.seen_by.size() > 1)
      into.heads.faults.try_emplace(-1, fmt::format("{}: there are shards of {} and of {} ranks", name,
                                                    into.seen_by.begin()->first, into.ranks()));
  return merged;
}

void read_head(const std::string& path, const CheckpointId& id, const ShardName& name, const Shape& shape,
               FileSystem& files, int rank, Heads& heads) {
  try {
    const ShardFile file(path, files);
    const ShardHeader& header = file.header();
    if (header.id != id || header.shard != name)
      fail(Cause::kInvalidUsage, "{}: it says that it is {} of {}: renamed?", path, shard_name(header.shard),
           folder_name(header.id));
    if (header.shape != shape) {
      heads.other_model = true;
      fail(Cause::kInvalidUsage, "{}: it is of a model of {}, but this run's has {}", path,
           header.shape.text(), shape.text());
    }
    heads.generation = std::max(heads.generation, header.generation);
    heads.whole_before |= header.whole_before;
    heads.right.try_emplace(name.rank, rank);
  } catch (const Error& error) {
    if (heads.faults.size() < kMostFaults) heads.faults.try_emplace(name.rank, error.what());
  }
}

Json to_json(const Heads& heads) {
  std::vector<int> right;
  for (const auto& [shard, rank] : heads.right) right.push_back(shard);
  Json faults = Json::array();
  for (const auto& [shard, fault] : heads.faults) faults.push_back({shard, fault});
  return {{"generation", heads.generation},
          {"whole_before", heads.whole_before},
          {"other_model", heads.other_model},
          {"right", ranges_of(std::move(right))},
          {"faults", std::move(faults)}};
}

void merge_heads(Heads& into, const Json& read, int rank) {
  into.generation = std::max(into.generation, read["generation"].get<std::int64_t>());
  into.whole_before |= read["whole_before"].get<bool>();
  into.other_model |= read["other_model"].get<bool>();
  each_of(read["right"], [&](int shard) { into.right.try_emplace(shard, rank); });
  for (const Json& fault : read["faults"])
    into.faults.try_emplace(fault[0].get<int>(), fault[1].get<std::string>());
}

/// Which of the ranks that see a shard read its head in this round.
enum class Round {
  kOne,     ///< one of them, another for each shard
  kOthers,  ///< where that one has not found it right, the others: on disks of their own they have other
            ///< files
};

bool reads(Round round, int shard, const std::vector<int>& seen_by, const Heads& heads, int rank) {
  const bool first = seen_by[static_cast<std::size_t>(shard) % seen_by.size()] == rank;
  if (round == Round::kOne) return first;
  return !first && !heads.right.contains(shard) && std::ranges::binary_search(seen_by, rank);
}

/// Collective: reads heads, and merges what they say.
void read_heads(Round round, const std::string& root, const Shape& shape, collectives::Communicator* world,
                FileSystem& files, Checkpoints& checkpoints) {
  const int rank = world == nullptr ? 0 : world->rank();
  const auto read = [&] {
    Json all = Json::object();
    for (const auto& [name, checkpoint] : checkpoints) {
      Heads own;
      for (const auto& [ranks, shards] : checkpoint.seen_by)
        for (const auto& [shard, seen_by] : shards)
          if (reads(round, shard, seen_by, checkpoint.heads, rank))
            read_head(fmt::format("{}/{}/{}", root, name, shard_name({shard, ranks})),
                      *parse_folder_name(name), {shard, ranks}, shape, files, rank, own);
      if (!own.right.empty() || !own.faults.empty()) all[name] = to_json(own);
    }
    return all;
  };
  const std::vector<Json> of_ranks = exchange(root, world, read);
  for (std::size_t from = 0; from < of_ranks.size(); ++from)
    for (const auto& [name, heads] : of_ranks[from].items())
      merge_heads(checkpoints[name].heads, heads, static_cast<int>(from));
}

bool any_left_to_others(const Checkpoints& checkpoints) {
  for (const auto& [name, checkpoint] : checkpoints)
    for (const auto& [ranks, shards] : checkpoint.seen_by)
      for (const auto& [shard, seen_by] : shards)
        if (seen_by.size() > 1 && !checkpoint.heads.right.contains(shard)) return true;
  return false;
}

FoundCheckpoint judge(const std::string& name, const Merged& merged) {
  FoundCheckpoint found;
  found.id = *parse_folder_name(name);
  found.generation = merged.heads.generation;
  found.whole_before = merged.heads.whole_before;
  found.ranks = merged.ranks();
  found.seen_by.resize(static_cast<std::size_t>(found.ranks), -1);
  for (const auto& [shard, rank] : merged.heads.right) found.seen_by[static_cast<std::size_t>(shard)] = rank;
  // A shard that is wrong where one rank looks and right where another does is right.
  std::size_t untold = 0;
  for (const auto& [shard, fault] : merged.heads.faults) {
    if (shard >= 0 && merged.heads.right.contains(shard)) continue;
    if (found.faults.size() < kMostFaults)
      found.faults.push_back(fault);
    else
      ++untold;
  }
  if (untold > 0) found.faults.push_back(fmt::format("{} more of its shards are wrong", untold));
  std::vector<int> missing;
  for (int shard = 0; shard < found.ranks; ++shard)
    if (!merged.heads.right.contains(shard) && !merged.heads.faults.contains(shard)) missing.push_back(shard);
  if (!found.faults.empty())
    found.condition = merged.heads.other_model ? CheckpointCondition::kOther : CheckpointCondition::kDamaged;
  else
    found.condition =
        missing.empty() && found.ranks > 0 ? CheckpointCondition::kWhole : CheckpointCondition::kIncomplete;
  if (!missing.empty())
    found.faults.push_back(
        fmt::format("no rank sees shard {} of {} intact", fmt::join(missing, ", "), found.ranks));
  if (found.ranks == 0) found.faults.push_back("it holds no shard");
  return found;
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
                                                collectives::Communicator* world, FileSystem& files,
                                                std::optional<CheckpointId> only) {
  Checkpoints checkpoints = merge_lists(exchange(root, world, [&] { return list(root, only); }));
  if (checkpoints.empty()) return {};
  read_heads(Round::kOne, root, shape, world, files, checkpoints);
  if (any_left_to_others(checkpoints)) read_heads(Round::kOthers, root, shape, world, files, checkpoints);
  std::vector<FoundCheckpoint> found;
  for (const auto& [name, checkpoint] : checkpoints) found.push_back(judge(name, checkpoint));
  std::ranges::sort(found, [](const FoundCheckpoint& a, const FoundCheckpoint& b) {
    return std::tuple(a.generation, a.id.step, a.id.attempt) >
           std::tuple(b.generation, b.id.step, b.id.attempt);
  });
  return found;
}

}  // namespace tombolo::trainer
