// The listeners and connections of a process, by what a peer names in its hello.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "base/clock.h"
#include "transport/bootstrap/destination.h"
#include "transport/bootstrap/inbox.h"
#include "transport/bootstrap/local_end.h"

namespace tombolo::transport::bootstrap {

/// Which end of a connection: both may be in one process.
enum class Side : std::uint8_t { kConnecting, kAccepting };

/// Where streams of one listener or connection go.
struct Registration {
  std::shared_ptr<const LocalEnd> end;
  std::shared_ptr<Inbox> inbox;  ///< null where the listener or connection is gone
  bool for_legs = false;         ///< a listener that reserve_for_legs() made
};

/// Thread-safe.
class Registrations {
 public:
  /// So many connections are remembered at most after they were closed. A peer of one that is forgotten finds
  /// out by its own time limits.
  static constexpr std::size_t kMostClosed = 4096;

  /// Streams of new connections for the returned listener number go to `inbox`, as long as another owner
  /// holds it. No two listeners of a process have the same number.
  std::uint32_t open_listener(std::shared_ptr<const LocalEnd> end, const std::shared_ptr<Inbox>& inbox);
  /// As open_listener(), for the further legs of a connection that is being made.
  ReservedListener reserve_for_legs(std::shared_ptr<const LocalEnd> end);
  /// Forgets the listener. For so long peers may still ask for it, which have its endpoint. True where other
  /// listeners are left, whose sockets such a peer reaches.
  bool close_listener(std::uint32_t number, TimePoint until);
  /// Streams that join or rejoin the connection, and questions for it, go to that end of it from now on,
  /// until close_connection() or until no other owner holds the inbox. False, and nothing is changed, where
  /// that end is there already, or is remembered as closed.
  [[nodiscard]] bool open_connection(const Nonce& connection, Side side, std::shared_ptr<const LocalEnd> end,
                                     const std::shared_ptr<Inbox>& inbox);
  /// A peer may miss the goodbye where a frame was cut short, and then asks whether the connection still
  /// exists. It is answered in the name of `remembered` until then. For as long, a stream that joins the
  /// connection late is refused and does not begin another.
  void close_connection(const Nonce& connection, Side side, std::shared_ptr<const LocalEnd> remembered,
                        TimePoint now, TimePoint until);
  /// Forgets the listeners of an end that is going.
  void leave(const LocalEnd& end);

  /// Its `end` is null where nothing of that name is known.
  Registration find(const Destination& to);
  /// The same of that end of a connection alone, whoever listens.
  Registration find_connection(const Nonce& connection, Side side);
  /// Whether peers of closed listeners and connections may still ask for them.
  bool may_be_asked(TimePoint now);

 private:
  using Key = std::pair<Nonce, Side>;
  struct Entry {
    std::shared_ptr<const LocalEnd> end;
    std::weak_ptr<Inbox> inbox;
    TimePoint closed_until{};  // zero while it is open
    bool for_legs = false;
  };
  std::uint32_t add_listener(Entry entry);
  Registration connection_at(const Key& key) const;
  void forget_old(TimePoint now);

  std::mutex mutex_;
  std::uint32_t next_listener_ = 1;
  std::map<std::uint32_t, Entry> listeners_;
  std::map<Key, Entry> connections_;
  std::deque<Key> closed_;  // the oldest first
  TimePoint asked_until_{};
};

}  // namespace tombolo::transport::bootstrap
