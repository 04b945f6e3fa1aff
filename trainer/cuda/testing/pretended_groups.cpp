#include "trainer/cuda/testing/pretended_groups.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace tombolo::trainer::cuda {

PretendedGroupState::PretendedGroupState(int size) : ranks_(static_cast<std::size_t>(size)) {}

void PretendedGroupState::join(const GroupMember& member) {
  std::unique_lock lock(mutex_);
  if (static_cast<std::size_t>(member.size) != ranks_.size() || member.rank < 0 || member.rank >= member.size)
    fail(Cause::kInvalidUsage, "rank {} of {} joins a group of {}", member.rank, member.size, ranks_.size());
  Rank& own = ranks_[static_cast<std::size_t>(member.rank)];
  if (own.joined) fail(Cause::kInvalidUsage, "rank {} joins its group twice", member.rank);
  own.joined = true;
  changed_.notify_all();
  const auto all = [&] { return std::ranges::all_of(ranks_, [](const Rank& rank) { return rank.joined; }); };
  if (changed_.wait_for(lock, member.deadline, all)) return;
  std::string missing;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
    if (!ranks_[rank].joined) missing += fmt::format(" {}", rank);
  fail(Cause::kTimeout, "rank {} of {}: joining the group: these ranks have not come:{}", member.rank,
       member.size, missing);
}

std::size_t PretendedGroupState::announce(int rank, std::size_t count) {
  const std::scoped_lock lock(mutex_);
  Rank& own = ranks_[static_cast<std::size_t>(rank)];
  if (own.user.value_or(std::this_thread::get_id()) != std::this_thread::get_id())
    fail(Cause::kInternal, "rank {}: two threads use one group", rank);
  own.user = std::this_thread::get_id();
  const std::size_t number = own.announced++;
  const auto [place, is_new] = sums_.try_emplace(number);
  Sum& sum = place->second;
  if (is_new) {
    sum.count = count;
    sum.first_rank = rank;
    sum.values.resize(ranks_.size());
  }
  if (sum.count != count)
    fail(Cause::kInternal, "sum {} of rank {} is of {} numbers, but that of rank {} is of {}", number, rank,
         count, sum.first_rank, sum.count);
  return number;
}

void PretendedGroupState::contribute(int rank, std::size_t number, std::span<const float> values) {
  const std::scoped_lock lock(mutex_);
  Sum& sum = sums_.at(number);
  sum.values[static_cast<std::size_t>(rank)].assign(values.begin(), values.end());
  ++sum.contributed;
}

std::optional<std::vector<float>> PretendedGroupState::result(std::size_t number) {
  const std::scoped_lock lock(mutex_);
  const auto found = sums_.find(number);
  if (found == sums_.end()) fail(Cause::kInternal, "the result of sum {} is taken twice by one rank", number);
  Sum& sum = found->second;
  if (sum.contributed < ranks_.size()) return std::nullopt;
  std::vector<float> total = sum.values.front();
  for (std::size_t rank = 1; rank < ranks_.size(); ++rank)
    for (std::size_t at = 0; at < total.size(); ++at) total[at] += sum.values[rank][at];
  if (++sum.taken == ranks_.size()) sums_.erase(found);
  return total;
}

void PretendedGroupState::give_up(int rank, const std::string& reason) {
  const std::scoped_lock lock(mutex_);
  auto& own = ranks_[static_cast<std::size_t>(rank)].given_up;
  if (!own) own = reason;
}

bool PretendedGroupState::given_up(int rank) const {
  const std::scoped_lock lock(mutex_);
  return ranks_[static_cast<std::size_t>(rank)].given_up.has_value();
}

void PretendedGroupState::check(int rank) const {
  const std::scoped_lock lock(mutex_);
  if (const auto& own = ranks_[static_cast<std::size_t>(rank)].given_up)
    fail(Cause::kAborted, "rank {} of {}: the group was given up: {}", rank, ranks_.size(), *own);
  for (std::size_t other = 0; other < ranks_.size(); ++other)
    if (const auto& theirs = ranks_[other].given_up)
      fail(Cause::kRemote, "rank {} of {}: sums of gradients: rank {} gave up: {}", rank, ranks_.size(),
           other, *theirs);
}

GroupId PretendedNccl::make_id() {
  const std::scoped_lock lock(mutex_);
  GroupId id;
  const std::string text = fmt::format("pretended group {}", groups_.size());
  std::memcpy(id.bytes.data(), text.data(), text.size());
  groups_.emplace(id.bytes, nullptr);
  return id;
}

std::shared_ptr<PretendedGroupState> PretendedNccl::group(const GroupId& id, int size) {
  const std::scoped_lock lock(mutex_);
  const auto found = groups_.find(id.bytes);
  if (found == groups_.end()) fail(Cause::kInvalidUsage, "nobody made this id of a group");
  if (!found->second) found->second = std::make_shared<PretendedGroupState>(size);
  return found->second;
}

std::size_t PretendedNccl::groups() const {
  const std::scoped_lock lock(mutex_);
  return groups_.size();
}

}  // namespace tombolo::trainer::cuda
