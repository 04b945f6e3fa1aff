#include "trainer/checkpoint/restore.h"

#include <algorithm>
#include <functional>
#include <map>

#include "base/error.h"
#include "trainer/checkpoint/patience.h"
#include "trainer/checkpoint/shard.h"
#include "trainer/checkpoint/stage_filler.h"

namespace tombolo::trainer {
namespace {

using collectives::Communicator;
using collectives::DataType;

/// What `action` throws, as text.
std::string fault_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

std::string shard_path(const FoundCheckpoint& found, const std::string& root, int shard) {
  return root + "/" + folder_name(found.id) + "/" + shard_name({shard, found.ranks});
}

/// Collective. The ranks' faults, by text: on a shared folder all ranks have the same.
std::vector<std::string> faults_of_all(const std::string& own, Communicator* world) {
  std::map<std::string, std::vector<int>> ranks;
  const std::vector<std::string> texts = texts_of_ranks(own, world);
  for (std::size_t rank = 0; rank < texts.size(); ++rank)
    if (!texts[rank].empty()) ranks[texts[rank]].push_back(static_cast<int>(rank));
  std::vector<std::string> faults;
  for (const auto& [text, of] : ranks)
    faults.push_back(world == nullptr ? text
                     : of.size() == 1 ? fmt::format("{} (rank {})", text, of[0])
                                      : fmt::format("{} ({} ranks, first {})", text, of.size(), of[0]));
  return faults;
}

/// Collective: true where it is so on every rank.
bool on_all(bool here, Communicator* world) {
  std::int32_t value = here ? 1 : 0;
  if (world != nullptr) world->all_reduce(&value, &value, 1, DataType::kInt32, collectives::ReduceOp::kMin);
  return value == 1;
}

/// The shards of one checkpoint that this rank can open.
std::vector<ShardFile> open_all(const FoundCheckpoint& found, const std::string& root) {
  std::vector<ShardFile> shards;
  for (int shard = 0; shard < found.ranks; ++shard) {
    try {
      shards.emplace_back(shard_path(found, root, shard));
    } catch (const Error&) {
      // On another host's disk: whether this rank needs it, it finds from those that it sees.
    }
  }
  return shards;
}

void read_all(const std::vector<ShardFile>& shards, StageFiller& filler) {
  std::vector<float> buffer;
  for (const ShardFile& shard : shards)
    for (std::size_t chunk = 0; chunk < shard.header().checksums.size(); ++chunk) {
      if (!filler.needs(shard.header(), chunk)) continue;
      buffer.resize(floats_of_chunk(shard.header(), chunk));
      shard.read_chunk(chunk, buffer);
      filler.take(shard.header(), chunk, buffer);
    }
}

/// Collective: `text`, of any length, from `root` to all.
void broadcast_text(std::string& text, int root, Communicator& world) {
  std::uint64_t size = text.size();
  world.broadcast(&size, &size, 1, DataType::kUint64, root);
  text.resize(size);
  if (size > 0) world.broadcast(text.data(), text.data(), size, DataType::kUint8, root);
}

/// The network's way: every shard passes by every rank, in chunks.
class Broadcast {
 public:
  Broadcast(const FoundCheckpoint& found, const std::string& root, Communicator& world)
      : found_(found), world_(world), files_(static_cast<std::size_t>(found.ranks)) {
    for (int shard = 0; shard < found.ranks; ++shard) {
      const auto index = static_cast<std::size_t>(shard);
      std::string head;
      if (mine(index)) {
        note(fault_of([&] { files_[index].emplace(shard_path(found, root, shard)); }));
        if (files_[index]) head = files_[index]->head();
      }
      broadcast_text(head, found.seen_by[index], world);
      // An empty head is its reader's fault, which the reader tells.
      headers_.emplace_back();
      if (!head.empty()) note(fault_of([&] { headers_.back() = parse_shard_head(head); }));
    }
  }

  const std::vector<ShardHeader>& headers() const noexcept { return headers_; }
  /// The first thing that went wrong on this rank.
  const std::string& fault() const noexcept { return fault_; }

  void pass_data(StageFiller& filler) {
    for (std::size_t shard = 0; shard < headers_.size(); ++shard)
      for (std::size_t chunk = 0; chunk < headers_[shard].checksums.size(); ++chunk)
        pass_chunk(shard, chunk, filler);
  }

 private:
  bool mine(std::size_t shard) const { return found_.seen_by[shard] == world_.rank(); }
  void note(const std::string& fault) {
    if (fault_.empty()) fault_ = fault;
  }

  // A reader that cannot read sends what it has: the others are waiting, and find that the checksum does not
  // fit.
  void pass_chunk(std::size_t shard, std::size_t chunk, StageFiller& filler) {
    const ShardHeader& header = headers_[shard];
    buffer_.resize(floats_of_chunk(header, chunk));
    std::string wrong;
    if (mine(shard)) wrong = fault_of([&] { files_[shard]->read_chunk(chunk, buffer_); });
    world_.broadcast(buffer_.data(), buffer_.data(), buffer_.size(), DataType::kFloat32,
                     found_.seen_by[shard]);
    if (wrong.empty() && !mine(shard)) {
      wrong = wrong_chunk(header, chunk, buffer_);
      if (!wrong.empty())
        wrong = fmt::format("{}/{}, read by rank {}: {}", folder_name(found_.id), shard_name(header.shard),
                            found_.seen_by[shard], wrong);
    }
    note(wrong);
    if (wrong.empty()) filler.take(header, chunk, buffer_);
  }

  const FoundCheckpoint& found_;
  Communicator& world_;
  std::vector<std::optional<ShardFile>> files_;
  std::vector<ShardHeader> headers_;
  std::vector<float> buffer_;
  std::string fault_;
};

std::vector<ShardHeader> headers_of(const std::vector<ShardFile>& shards) {
  std::vector<ShardHeader> headers;
  for (const ShardFile& shard : shards) headers.push_back(shard.header());
  return headers;
}

}  // namespace

RestoreResult restore_checkpoint(const FoundCheckpoint& found, const std::string& root, StageCompute& compute,
                                 Communicator* world) {
  StageFiller filler(compute);
  RestoreResult result;
  {
    std::vector<ShardFile> shards;
    work_with_patience(world, [&] { shards = open_all(found, root); });
    const std::vector<ShardHeader> headers = headers_of(shards);
    const std::string missing = filler.missing(headers);
    result.read_directly = on_all(missing.empty(), world);
    if (result.read_directly || world == nullptr) {
      std::string fault = missing;
      work_with_patience(world, [&] {
        if (fault.empty()) fault = fault_of([&] { read_all(shards, filler); });
      });
      result.faults = faults_of_all(fault, world);
      if (result.faults.empty()) result.data_position = headers.front().data_position;
      return result;
    }
  }
  Broadcast broadcast(found, root, *world);
  const std::string missing = filler.missing(broadcast.headers());
  result.faults = faults_of_all(broadcast.fault().empty() ? missing : broadcast.fault(), world);
  if (!result.faults.empty()) return result;
  broadcast.pass_data(filler);
  result.faults = faults_of_all(broadcast.fault(), world);
  if (result.faults.empty()) result.data_position = broadcast.headers().front().data_position;
  return result;
}

}  // namespace tombolo::trainer
