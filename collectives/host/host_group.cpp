#include "collectives/host/host_group.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <exception>

#include "base/error.h"
#include "transport/kernel.h"

namespace tombolo::collectives {

using transport::Descriptor;
using transport::kernel;

namespace {

/// For so long a process that was seen to be a member's still has its number: the system gives that to
/// another one only after it has given away all others.
constexpr Duration kProofLasts = std::chrono::microseconds(100);

}  // namespace

std::unique_ptr<HostGroup> HostGroup::create(Reach reach, compute::LastLevelCaches caches) noexcept {
  try {
    std::unique_ptr<HostGroup> group(new HostGroup);
    int ends[2];
    if (kernel().pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return nullptr;
    group->doorbell_ = Descriptor(ends[0]);
    group->ringer_ = Descriptor(ends[1]);
    group->mapping_ = transport::shm::SharedMemory::create(sizeof(RankMemory), group->file_);
    group->own_ = reinterpret_cast<RankMemory*>(group->mapping_.data());
    RankMemory& own = *group->own_;
    if (kernel().getrandom(&own.token, sizeof(own.token), 0) != static_cast<ssize_t>(sizeof(own.token)) ||
        kernel().getrandom(own.witness.data(), own.witness.size(), 0) != std::ssize(own.witness)) {
      return nullptr;
    }
    own.witness_address = reinterpret_cast<std::uint64_t>(own.witness.data());
    own.cache_bytes = caches.bytes;
    own.caches = caches.count;
    group->reach_ = reach;
    return group;
  } catch (...) {
    return nullptr;
  }
}

HostGroup::~HostGroup() {
  leave();
}

HostCard HostGroup::card() const noexcept {
  return {kernel().getpid(), file_.get(), doorbell_.get(), own_->token};
}

void HostGroup::map(Member& member, const HostCard& card) {
  if (card.process <= 0) fail(Cause::kUnsupported, "it offers no memory");
  if (card.process != kernel().getpid()) {
    // Before the memory: where the number comes to belong to another process, that has no such memory.
    member.process = Descriptor(kernel().pidfd_open(static_cast<pid_t>(card.process), 0));
    if (!member.process)
      fail(Cause::kUnsupported, "its process {} cannot be watched: {}", card.process, errno_text(errno));
  }
  member.mapping = transport::shm::SharedMemory::open(card.process, card.memory, sizeof(RankMemory));
  member.memory = reinterpret_cast<RankMemory*>(member.mapping.data());
  if (member.memory->token != card.token)
    fail(Cause::kUnsupported, "process {} is another one in this PID namespace", card.process);
  member.process_memory = {card.process, member.memory->witness_address, member.memory->witness};
  const std::string doorbell = fmt::format("/proc/{}/fd/{}", card.process, card.doorbell);
  struct stat status {};
  const Descriptor name(kernel().open(doorbell.c_str(), O_PATH | O_CLOEXEC));
  if (!name || kernel().fstat(name.get(), &status) != 0 || !S_ISFIFO(status.st_mode))
    fail(Cause::kUnsupported, "{} is no pipe", doorbell);
  // Also for reading: a write to a pipe that nobody reads any more would end this process by a signal.
  member.doorbell = Descriptor(kernel().open(doorbell.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!member.doorbell) fail(Cause::kUnsupported, "open {}: {}", doorbell, errno_text(errno));
}

void HostGroup::join(std::span<const HostCard> cards, int index) noexcept {
  index_ = index;
  std::size_t at = 0;
  try {
    members_.resize(cards.size());
    handles_.resize(cards.size());
    for (; at < members_.size(); ++at) {
      if (static_cast<int>(at) == index) {
        members_[at].memory = own_;
      } else {
        map(members_[at], cards[at]);
      }
    }
  } catch (const std::exception& error) {
    standing_ = Standing::kRefused;
    try {
      refusal_ = fmt::format("rank {}: {}", at, error.what());
    } catch (...) {  // without memory the reason stays unknown
    }
  }
  own_->reach.store(standing_ != Standing::kRefused && may_read_all() ? Reach::kBuffers : Reach::kShared,
                    std::memory_order_relaxed);
  // Whoever cannot map this rank's memory, and so cannot read this, refuses as well.
  own_->vote.store(standing_ == Standing::kRefused ? Vote::kRefused : Vote::kAccepted,
                   std::memory_order_release);
  ring_all(false);
}

bool HostGroup::may_read_all() const noexcept {
  if (reach_ == Reach::kShared) return false;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (static_cast<int>(i) == index_) continue;
    if (members_[i].process_memory.verify() != transport::shm::PeerMemory::Outcome::kRead) return false;
  }
  return true;
}

HostGroup::Standing HostGroup::look() noexcept {
  if (standing_ != Standing::kForming) return standing_;
  bool open = false;
  for (const Member& member : members_) {
    switch (member.memory->vote.load(std::memory_order_acquire)) {
      case Vote::kRefused:
        return standing_ = Standing::kRefused;
      case Vote::kOpen:
        open = true;
        break;
      case Vote::kAccepted:
      case Vote::kLeft:  // whoever has left had accepted, else it would have said so for good
        break;
    }
  }
  if (open) return standing_;
  reads_buffers_ = std::all_of(members_.begin(), members_.end(), [](const Member& member) {
    return member.memory->reach.load(std::memory_order_relaxed) == Reach::kBuffers;
  });
  return standing_ = Standing::kFormed;
}

transport::shm::PeerMemory::Outcome HostGroup::read_buffer(int index, std::span<std::byte> to,
                                                           std::uint64_t from, const Clock& clock) noexcept {
  using Outcome = transport::shm::PeerMemory::Outcome;
  Member& member = members_[static_cast<std::size_t>(index)];
  const auto prove = [&, before = clock.now()](Outcome outcome) {
    if (outcome == Outcome::kRead) member.proven = before;
    return outcome;
  };
  const auto is_proven = [&] { return member.proven && clock.now() - *member.proven <= kProofLasts; };
  if (!is_proven()) return prove(member.process_memory.read(to, from));
  const Outcome outcome = member.process_memory.read_unproven(to, from);
  // Who withdraws wipes the witness before the buffer is returned, which it was not while the witness stands.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (outcome != Outcome::kRead) return outcome;
  if (has_withdrawn(index)) return Outcome::kNotThePeer;
  // This rank may have been stopped before it read. A process that still is the member was it then.
  return is_proven() ? outcome : prove(member.process_memory.verify());
}

void HostGroup::announce(std::uint64_t round) noexcept {
  own_->announcements[round % kSlots].round.store(round, std::memory_order_release);
  // Whoever falls asleep raises the count and then looks at this round: one of the two sees the other.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (members_.front().memory->sleepers.load(std::memory_order_relaxed) > 0) ring_all(true);
}

void HostGroup::ring_all(bool sleepers_only) noexcept {
  for (const Member& member : members_) {
    if (!member.doorbell) continue;
    if (sleepers_only && member.memory->sleeps.exchange(0, std::memory_order_relaxed) == 0) continue;
    // A full pipe wakes as well as one more byte in it.
    const char ring = 0;
    [[maybe_unused]] const auto written = kernel().write(member.doorbell.get(), &ring, 1);
  }
}

void HostGroup::fall_asleep() noexcept {
  if (asleep_) return;
  asleep_ = true;
  own_->sleeps.store(1, std::memory_order_relaxed);
  members_.front().memory->sleepers.fetch_add(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void HostGroup::wake_up() noexcept {
  if (!asleep_) return;
  asleep_ = false;
  own_->sleeps.store(0, std::memory_order_relaxed);
  members_.front().memory->sleepers.fetch_sub(1, std::memory_order_relaxed);
  char rings[64];
  while (kernel().read(doorbell_.get(), rings, sizeof(rings)) == static_cast<ssize_t>(sizeof(rings))) {
  }
}

void HostGroup::append_wait_handles(std::vector<pollfd>& handles) const {
  handles.push_back({doorbell_.get(), POLLIN, 0});
  for (const Member& member : members_) {
    if (member.process) handles.push_back({member.process.get(), POLLIN, 0});
  }
}

void HostGroup::look_for_ended() noexcept {
  // poll() passes over the negative numbers of those who have none.
  for (std::size_t i = 0; i < members_.size(); ++i) handles_[i] = {members_[i].process.get(), POLLIN, 0};
  if (kernel().poll(handles_.data(), static_cast<nfds_t>(handles_.size()), 0) <= 0) return;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (handles_[i].revents == 0) continue;
    members_[i].ended = true;
    members_[i].process = Descriptor();  // it would end every sleep
  }
}

HostGroup::Absence HostGroup::absence(int index) const noexcept {
  const Member& member = members_[static_cast<std::size_t>(index)];
  if (member.memory->vote.load(std::memory_order_acquire) == Vote::kLeft) return Absence::kLeft;
  return member.ended ? Absence::kEnded : Absence::kNone;
}

void HostGroup::withdraw() noexcept {
  // A forked child's copy says nothing on its parent's behalf.
  if (own_ != nullptr && generation_ == transport::fork_generation()) transport::shm::wipe(own_->witness);
}

void HostGroup::leave() noexcept {
  if (own_ == nullptr || generation_ != transport::fork_generation()) return;
  withdraw();
  if (own_->vote.load(std::memory_order_relaxed) != Vote::kAccepted) return;
  wake_up();
  own_->vote.store(Vote::kLeft, std::memory_order_release);
  ring_all(false);
}

}  // namespace tombolo::collectives
