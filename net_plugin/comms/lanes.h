// The lanes of a comm: one connection for each tag that its messages carry.
//
// NCCL's rule for grouped receives is that, for each tag, the n-th send with it meets the n-th buffer posted
// with it. So the messages of one tag are a first-in first-out stream, and those of different tags must not
// wait for each other. A transport connection is such a stream; a comm therefore has one for each tag, and
// neither the transport nor the wire knows of groups.
//
// The first connection is made by NCCL's connect and accept, before any tag is known. It becomes the lane of
// the sender's first tag, which its first message says (four bytes, least significant first). The sender
// opens the lane of another tag when a message has it first; the receiver recognises it by its label
// (lane_label.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "net_plugin/comms/request.h"
#include "transport/transport.h"

namespace tombolo::net_plugin {

/// The messages of one tag.
struct Lane {
  enum class State : std::uint8_t { kOpening, kOpen, kFailed };

  int tag = 0;
  bool any_tag = false;  ///< it serves every tag: the comm has no other lane
  State state = State::kOpening;
  std::size_t index = 0;     ///< of its connection among the comm's, once open; 0: the first
  std::uint64_t number = 0;  ///< its connection's in the process's meters, once open
  std::size_t posted = 0;    ///< parts that the connection has
  std::unique_ptr<transport::Connecting> connecting;  ///< the sender's, while kOpening
  std::unique_ptr<transport::Connection> connection;  ///< while kOpen
  Part* first_waiting = nullptr;                      ///< the parts that wait for it, in order
  Part* last_waiting = nullptr;

  bool serves(int other) const noexcept { return any_tag || tag == other; }
  void append(Part& part) noexcept {
    part.next_waiting = nullptr;
    (first_waiting == nullptr ? first_waiting : last_waiting->next_waiting) = &part;
    last_waiting = &part;
  }
  void pop() noexcept { first_waiting = first_waiting->next_waiting; }
};

/// Used by one thread at a time. Destroying it closes the connections.
class Lanes {
 public:
  virtual ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  /// The lane of that tag, which may be opening still; null where the tag is new.
  Lane* find(int tag) noexcept {
    for (const auto& lane : lanes_)
      if (lane->serves(tag)) return lane.get();
    return nullptr;
  }
  /// Adds the lane of a new tag. Throws where it cannot be made.
  virtual Lane& add(int tag) = 0;

  /// Whether tags tell messages apart.
  virtual bool grouped() const noexcept { return true; }
  /// False while progress() has something to do.
  bool settled() const noexcept { return settled_; }
  /// Moves what is not open yet. Throws Error, naming tag and peer, where a lane will not come.
  virtual void progress() = 0;

  std::span<const std::unique_ptr<Lane>> all() const noexcept { return lanes_; }
  /// The connection that NCCL's connect or accept made.
  transport::Connection& first() noexcept;

 protected:
  explicit Lanes(std::unique_ptr<transport::Connection> first);

  /// Adds a lane without a connection.
  Lane& append(int tag);
  /// Gives a lane its connection.
  void open(Lane& lane, std::unique_ptr<transport::Connection> connection) noexcept;
  /// Throws saying that the lane will not come, because of that.
  [[noreturn]] void give_up(Lane& lane, const Error& cause);
  Lane* opening() noexcept;

  using TagBytes = std::array<std::byte, 4>;
  TagBytes first_tag_{};  // the first message on the first connection; declared before the connections
  transport::Request* announcing_ = nullptr;           // while that is under way
  std::unique_ptr<transport::Connection> unassigned_;  // the first connection until its tag is known
  transport::Connection* first_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::size_t connections_ = 0;  // that lanes have
  bool settled_ = true;
};

/// One lane for every tag, for comms without grouped receives: tags mean nothing.
class OneLane final : public Lanes {
 public:
  explicit OneLane(std::unique_ptr<transport::Connection> connection);
  bool grouped() const noexcept override { return false; }
  Lane& add(int tag) override;
  void progress() override {}
};

/// Makes the connections of further lanes, for the sender.
class LaneDialer {
 public:
  virtual ~LaneDialer() = default;
  /// Begins a connection that serves the tag. Throws where none can be made.
  virtual std::unique_ptr<transport::Connecting> dial(int tag) = 0;
};

class SendLanes final : public Lanes {
 public:
  SendLanes(std::unique_ptr<transport::Connection> first, std::unique_ptr<LaneDialer> dialer);
  Lane& add(int tag) override;
  void progress() override;

 private:
  std::unique_ptr<LaneDialer> dialer_;
};

/// Gets the connections of further lanes, for the receiver.
class LaneArrivals {
 public:
  virtual ~LaneArrivals() = default;
  /// A connection that has arrived, with its tag in its label; null where there is none.
  virtual std::unique_ptr<transport::Connection> next() = 0;
};

class ReceiveLanes final : public Lanes {
 public:
  /// A peer that ends one of its connections may have sent on a lane that has not arrived yet: it is waited
  /// for so long.
  static constexpr Duration kGrace = std::chrono::seconds(2);

  ReceiveLanes(std::unique_ptr<transport::Connection> first, std::unique_ptr<LaneArrivals> arrivals,
               const Clock& clock = Clock::steady());
  Lane& add(int tag) override;
  void progress() override;

 private:
  void learn_first_tag();

  std::unique_ptr<LaneArrivals> arrivals_;
  const Clock& clock_;
  std::optional<Deadline> grace_;
};

}  // namespace tombolo::net_plugin
