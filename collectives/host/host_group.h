// The ranks of one host, which see each other's memory: how they come together, announce rounds, sleep and
// wake, and notice who is gone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "collectives/host/rank_memory.h"
#include "compute/caches.h"
#include "transport/descriptor.h"
#include "transport/shm/peer_memory.h"
#include "transport/shm/shared_memory.h"

namespace tombolo::collectives {

/// Where a rank's memory is found. It is published in the store.
struct HostCard {
  std::int64_t process = 0;    ///< 0: this rank has none
  std::int32_t memory = -1;    ///< the number of its file in that process
  std::int32_t doorbell = -1;  ///< of the pipe that wakes it
  std::uint64_t token = 0;

  bool operator==(const HostCard&) const = default;
};

/// One thread at a time, like the communicator that owns it. It never blocks.
class HostGroup {
 public:
  /// Makes this rank's memory and doorbell. Null where the system lets it have none.
  /// `reach`: what it may read of others, where the system lets it. `caches`: of the machine.
  static std::unique_ptr<HostGroup> create(
      Reach reach = Reach::kBuffers, compute::LastLevelCaches caches = compute::last_level_caches()) noexcept;
  ~HostGroup();
  HostGroup(const HostGroup&) = delete;
  HostGroup& operator=(const HostGroup&) = delete;

  HostCard card() const noexcept;
  /// Maps the memory of the others, whose cards are given in the order that all have agreed on, and tells
  /// them whether it could. `index` is this rank's place. Called once.
  void join(std::span<const HostCard> cards, int index) noexcept;

  enum class Standing : std::uint8_t {
    kForming,  ///< some have not said so far
    kFormed,   ///< all see all
    kRefused,  ///< at least one does not: the group can never be used. All come to the same answer
  };
  /// As of the last look().
  Standing standing() const noexcept { return standing_; }
  /// Looks at what the others have said. kFormed and kRefused stay.
  Standing look() noexcept;

  /// Of a group that is formed: whether every rank can read the buffers of all others. The same on every
  /// rank.
  bool reads_buffers() const noexcept { return reads_buffers_; }
  /// The last-level caches, as the first rank has found them: the same on every rank.
  compute::LastLevelCaches caches() const noexcept {
    const RankMemory& first = *members_.front().memory;
    return {first.cache_bytes, first.caches};
  }
  /// Copies bytes from a buffer in the memory of that rank's process, one of a group that reads buffers. On
  /// kNotThePeer the rank is gone, or has withdrawn. Except on kRead `to` may hold anything. `clock`: the
  /// same in all calls.
  transport::shm::PeerMemory::Outcome read_buffer(int index, std::span<std::byte> to, std::uint64_t from,
                                                  const Clock& clock) noexcept;
  /// What others read of this rank's buffers after this they do not take for its bytes any more. Called
  /// before buffers that it has announced return to their owners although others may still read them.
  void withdraw() noexcept;
  bool has_withdrawn(int index) const noexcept { return transport::shm::is_wiped(memory(index).witness); }
  /// Tells the others that this rank has copied so many bytes more out of their buffers.
  void count_copied(std::size_t bytes) noexcept {
    own_->copied.store(own_->copied.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
  }

  /// What this rank could not map; empty where it was another that could not.
  const std::string& refusal() const noexcept { return refusal_; }

  int size() const noexcept { return static_cast<int>(members_.size()); }
  int index() const noexcept { return index_; }
  RankMemory& memory(int index) const noexcept { return *members_[static_cast<std::size_t>(index)].memory; }
  RankMemory& own() const noexcept { return *own_; }

  /// Whether the rank has announced that round. What it wrote before is then visible.
  bool has_announced(int index, std::uint64_t round) const noexcept {
    return announced(index, round) >= round;
  }
  /// The last round that the rank has announced where it announces that one; 0: none.
  std::uint64_t announced(int index, std::uint64_t round) const noexcept {
    return memory(index).announcements[round % kSlots].round.load(std::memory_order_acquire);
  }
  /// Announces this rank's next round, for which the rest of the announcement and the slot are written.
  void announce(std::uint64_t round) noexcept;

  /// From here on the others ring this rank's doorbell. The caller looks once more for what it waits for
  /// before it polls, and calls wake_up() afterwards.
  void fall_asleep() noexcept;
  void wake_up() noexcept;
  /// Handles that become ready when the doorbell rings or the process of another ends that lived so far.
  void append_wait_handles(std::vector<pollfd>& handles) const;

  /// Looks whose processes have ended, in one system call.
  void look_for_ended() noexcept;
  /// Why a member announces no more rounds than it has. What it announced before can still be read: the
  /// memory stays until the last rank unmaps it, and only the member itself writes there.
  enum class Absence : std::uint8_t {
    kNone,
    kLeft,   ///< it said so
    kEnded,  ///< the last look_for_ended() found that its process has ended
  };
  Absence absence(int index) const noexcept;
  /// Whether the rank has said that it has, or has not, mapped the others' memory.
  bool has_voted(int index) const noexcept {
    return memory(index).vote.load(std::memory_order_acquire) != Vote::kOpen;
  }
  /// Tells the others that this rank announces nothing more. Afterwards only the destructor may be called.
  void leave() noexcept;

 private:
  struct Member {
    transport::shm::SharedMemory mapping;
    RankMemory* memory = nullptr;
    transport::Descriptor process;  // a pidfd; none of this process's own ranks, nor once it has ended
    bool ended = false;
    transport::shm::PeerMemory process_memory;
    std::optional<TimePoint> proven;  // when that was last seen to be the member's
    transport::Descriptor doorbell;   // for writing
  };

  HostGroup() = default;
  /// Throws where the card does not lead to such memory.
  static void map(Member& member, const HostCard& card);
  /// Whether the system lets this rank read the memory of all other processes.
  bool may_read_all() const noexcept;
  void ring_all(bool sleepers_only) noexcept;

  transport::shm::SharedMemory mapping_;
  RankMemory* own_ = nullptr;
  transport::Descriptor file_, doorbell_,
      ringer_;                   // ringer_: the doorbell's other end, so that it never hangs up
  std::vector<Member> members_;  // this rank's place has no mapping of its own
  int index_ = 0;
  Standing standing_ = Standing::kForming;
  Reach reach_ = Reach::kShared;  // as it was told
  bool reads_buffers_ = false;
  bool asleep_ = false;
  std::vector<pollfd> handles_;  // of look_for_ended()
  std::string refusal_;
  unsigned generation_ = transport::fork_generation();
};

}  // namespace tombolo::collectives
