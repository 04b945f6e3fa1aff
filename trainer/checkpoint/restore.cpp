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

/// Collective: `text`, of any length, from `root` to all.
void broadcast_text(std::string& text, int root, Communicator& world) {
  std::uint64_t size = text.size();
  world.broadcast(&size, &size, 1, DataType::kUint64, root);
  text.resize(size);
  if (size > 0) world.broadcast(text.data(), text.data(), size, DataType::kUint8, root);
}

/// The shards of one checkpoint: the heads of all, the data of those that are asked for. All ranks call the
/// same members in the same order.
class Shards {
 public:
  /// Collective.
  Shards(const FoundCheckpoint& found, const std::string& root, Communicator* world, FileSystem& files)
      : found_(found),
        root_(root),
        world_(world),
        files_(files),
        open_(static_cast<std::size_t>(found.ranks)) {
    work_with_patience(world_, [&] {
      for (std::size_t shard = 0; shard < open_.size(); ++shard)
        if (mine(shard)) note(fault_of([&] { open(shard); }));
    });
    for (std::size_t shard = 0; shard < open_.size(); ++shard) {
      std::string& head = heads_.emplace_back();
      if (open_[shard]) head = open_[shard]->head();
      if (world_ != nullptr) broadcast_text(head, found_.seen_by[shard], *world_);
      // An empty head is its reader's fault, which the reader tells.
      headers_.emplace_back();
      if (!head.empty()) note(fault_of([&] { headers_.back() = parse_shard_head(head); }));
    }
  }

  const std::vector<ShardHeader>& headers() const noexcept { return headers_; }
  /// The first thing that went wrong on this rank.
  const std::string& fault() const noexcept { return fault_; }

  /// Collective: true where every rank sees the shards that its stage needs something of.
  bool everywhere(const StageFiller& filler) {
    bool here = true;
    work_with_patience(world_, [&] {
      for (std::size_t shard = 0; shard < open_.size() && here; ++shard)
        if (needed(shard, filler)) here = see(shard);
    });
    return on_all(here, world_);
  }
  /// Collective, after everywhere(): every rank reads what it needs.
  void read(StageFiller& filler) {
    work_with_patience(world_, [&] {
      for (std::size_t shard = 0; shard < open_.size() && fault_.empty(); ++shard)
        if (needed(shard, filler)) note(fault_of([&] { read(shard, filler); }));
    });
  }
  /// Collective: all the data passes by every rank, in chunks.
  void pass(StageFiller& filler) {
    for (std::size_t shard = 0; shard < headers_.size(); ++shard) {
      for (std::size_t chunk = 0; chunk < headers_[shard].checksums.size(); ++chunk)
        pass_chunk(shard, chunk, filler);
      if (open_[shard]) open_[shard]->close();
    }
  }

 private:
  bool mine(std::size_t shard) const {
    return found_.seen_by[shard] == (world_ == nullptr ? 0 : world_->rank());
  }
  void note(const std::string& fault) {
    if (fault_.empty()) fault_ = fault;
  }
  void open(std::size_t shard) {
    const std::string name = shard_name({static_cast<int>(shard), found_.ranks});
    open_[shard].emplace(root_ + "/" + folder_name(found_.id) + "/" + name, files_);
  }
  /// Whether this rank sees the same file as the shard's reader. On another host's disk it may not.
  bool see(std::size_t shard) {
    if (!open_[shard]) fault_of([&] { open(shard); });
    return open_[shard] && open_[shard]->head() == heads_[shard];
  }
  bool needed(std::size_t shard, const StageFiller& filler) const {
    for (std::size_t chunk = 0; chunk < headers_[shard].checksums.size(); ++chunk)
      if (filler.needs(headers_[shard], chunk)) return true;
    return false;
  }

  void read(std::size_t shard, StageFiller& filler) {
    const ShardHeader& header = headers_[shard];
    for (std::size_t chunk = 0; chunk < header.checksums.size(); ++chunk) {
      if (!filler.needs(header, chunk)) continue;
      buffer_.resize(floats_of_chunk(header, chunk));
      open_[shard]->read_chunk(chunk, buffer_);
      filler.take(header, chunk, buffer_);
    }
    open_[shard]->close();
  }

  // A reader that cannot read sends what it has: the others are waiting, and find that the checksum does not
  // fit.
  void pass_chunk(std::size_t shard, std::size_t chunk, StageFiller& filler) {
    const ShardHeader& header = headers_[shard];
    buffer_.resize(floats_of_chunk(header, chunk));
    std::string wrong;
    if (mine(shard)) wrong = fault_of([&] { open_[shard]->read_chunk(chunk, buffer_); });
    world_->broadcast(buffer_.data(), buffer_.data(), buffer_.size(), DataType::kFloat32,
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
  const std::string& root_;
  Communicator* world_;
  FileSystem& files_;
  std::vector<std::optional<ShardFile>> open_;  ///< those whose head this rank has read
  std::vector<std::string> heads_;
  std::vector<ShardHeader> headers_;
  std::vector<float> buffer_;
  std::string fault_;
};

}  // namespace

RestoreResult restore_checkpoint(const FoundCheckpoint& found, const std::string& root, StageCompute& compute,
                                 Communicator* world, FileSystem& files) {
  StageFiller filler(compute);
  RestoreResult result;
  Shards shards(found, root, world, files);
  const std::string missing = shards.fault().empty() ? filler.missing(shards.headers()) : shards.fault();
  result.faults = faults_of_all(missing, world);
  if (!result.faults.empty()) return result;
  result.read_directly = shards.everywhere(filler) || world == nullptr;
  if (result.read_directly)
    shards.read(filler);
  else
    shards.pass(filler);
  result.faults = faults_of_all(shards.fault(), world);
  if (result.faults.empty()) {
    result.data_position = shards.headers().front().data_position;
    result.settings = shards.headers().front().settings;
  }
  return result;
}

}  // namespace tombolo::trainer
