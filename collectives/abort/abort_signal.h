// How a wait learns that it should stop: the user's abort() from another thread, or another rank's note in
// the store. Both are descriptors, so that a sleeping wait wakes at once.
#pragma once

#include <poll.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "collectives/abort/abort_note.h"
#include "collectives/rendezvous/bootstrap.h"
#include "transport/descriptor.h"

namespace tombolo::collectives {

/// Where the job's store is, and this communicator's part of its keys.
struct Rendezvous {
  std::shared_ptr<const StoreAccess> store;
  std::string known_as;  ///< the address that the ranks were told
  int port = 0;
  std::string prefix;                     ///< "comm/0"
  const Clock* clock = &Clock::steady();  ///< for deadlines
  bool kept_here = false;                 ///< this process keeps the store
};

/// The key that is in the store for as long as this rank's communicator is, and its process lives.
std::string presence_key(const Rendezvous& rendezvous, int rank);

/// The key that a rank sets once it has read what all have published under `what`, and that stays. Of a rank
/// that has read the kRankRecords, and whose presence_key() is not there, the communicator has ended; of one
/// that has not, it may just be in the making.
std::string read_key(const Rendezvous& rendezvous, std::string_view what, int rank);
inline constexpr std::string_view kRankRecords = "rank";

class AbortSignal {
 public:
  /// Watches no store until watch() is called.
  AbortSignal();
  AbortSignal(const AbortSignal&) = delete;
  AbortSignal& operator=(const AbortSignal&) = delete;

  /// Watches for other ranks' notes from here on, as this rank, whose presence is in the store meanwhile.
  void watch(const Rendezvous& rendezvous, int rank, Deadline deadline);

  /// Raises the signal of this process. From any thread.
  void raise(const std::string& reason) noexcept;
  bool is_raised() const noexcept { return raised_.load(std::memory_order_relaxed); }
  /// The reason given to raise(). Cheap enough for every turn of a wait loop.
  std::optional<std::string> raised() const;

  enum class News { kNone, kNote, kStoreLost };
  /// Looks whether another rank has left a note, which note() then returns, or the store has vanished. It
  /// makes a system call, so it is meant for the moments before and after sleeping.
  News check();
  /// As check(), but waits until the deadline while there are none and may be some.
  News await(Deadline deadline);
  /// Whether the store's process was there when check() last looked. It may end before the communicator does.
  bool reaches_store() const noexcept;
  /// Whether its process has ended, or closed the store: the connection that was made at the beginning says
  /// so. Waits for that end until the deadline.
  bool store_has_ended(Deadline deadline);
  /// Asks the store whether a key is there, as StoreWatch::ask(), and answer(): never where there is no
  /// store, or it has gone.
  void ask(std::string_view key);
  std::optional<bool> answer();
  const AbortNote& note() const noexcept { return note_; }
  void append_wait_handles(std::vector<pollfd>& handles) const;

  /// How long telling the other ranks may take. Where the store is dead, they learn it by their own
  /// deadlines.
  static constexpr Duration kPublishPatience = std::chrono::seconds(2);
  /// Publishes this rank's note unless there is one already; returns the one that counts; when the store
  /// cannot be reached in kPublishPatience, this rank's own. From any thread.
  static AbortNote publish(const Rendezvous& rendezvous, const AbortNote& own) noexcept;
  /// The same in a store that is reached already, which throws as that does.
  static AbortNote publish(Store& store, const Rendezvous& rendezvous, const AbortNote& own);

 private:
  transport::Descriptor wakeup_;  // eventfd
  std::atomic<bool> raised_{false};
  mutable std::mutex mutex_;  // reason_
  std::string reason_;
  std::unique_ptr<StoreWatch> watch_;
  AbortNote note_;
};

}  // namespace tombolo::collectives
