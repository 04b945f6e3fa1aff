// The operations of this rank on the memory of one other rank, over a connection that is dialled for the
// first of them.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "net_plugin/rma/messages.h"
#include "net_plugin/rma/nic_way.h"
#include "net_plugin/rma/operation.h"
#include "net_plugin/rma/operation_stall.h"
#include "transport/routing/router.h"
#include "transport/transport.h"

namespace tombolo::net_plugin::rma {

/// Used under its group's lock.
class Initiator {
 public:
  /// A connection on its way, and the router that makes it.
  struct Dialled {
    std::shared_ptr<transport::Router> router;
    std::unique_ptr<transport::Connecting> connecting;
  };
  /// It may throw, and so may what it returns; operations then fail.
  using Dial = std::function<Dialled()>;
  /// `by_nic`: whether NICs may carry out what they can.
  Initiator(Dial dial, CopyPieces& pieces, bool by_nic)
      : dial_(std::move(dial)),
        nic_(by_nic),
        parts_in_(Parts::Way::kReceive, pieces),
        parts_out_(Parts::Way::kSend, pieces),
        transfer_in_(pieces),
        transfer_out_(pieces) {}
  /// For a connection that is there already.
  Initiator(std::unique_ptr<transport::Connection> connection, CopyPieces& pieces, bool by_nic);

  /// Takes the operation, which stays the group's. Operations are carried out in the order in which they
  /// come.
  void add(Operation& operation) {
    if (queue_.empty() && awaiting_.empty()) watch_.begin();
    queue_.push_back(&operation);
  }
  bool progress() noexcept;
  /// What does not get on, where nothing has moved since the last calls of this for so long that it should be
  /// told: after `limit`, and after ten times that. Nothing where no operation is under way.
  std::optional<OperationStall> look_for_stall(TimePoint now, Duration limit);
  /// All operations that are not done fail, and none is taken any more.
  void fail(const std::string& why) noexcept;
  /// After a failure: waits for copies of the GPU's that may be under way still, for a bounded time. From
  /// then on nothing touches windows any more.
  void stop_copies() noexcept;

  /// The window, which no operation uses, is deregistered.
  void forget(const Window& window) noexcept { nic_.forget(window); }
  /// Whether one that is not done uses the window.
  bool uses(const Window& window) const noexcept;
  /// Why everything fails; null where it does not.
  const std::string* error() const noexcept { return error_ ? &*error_ : nullptr; }

 private:
  enum class Sending : std::uint8_t { kNothing, kGathering, kPosting, kParts };
  enum class Receiving : std::uint8_t { kReply, kScattering, kParts };

  bool connect();
  bool run_ahead();
  bool may_begin(const Operation& operation) const noexcept;
  void lose_nics() noexcept;
  bool send();
  bool receive();
  void check(transport::Outcome outcome, const Operation& operation) const;

  Dial dial_;
  NicWay nic_;
  std::deque<Operation*> queue_;     // not yet sent; its first while it is being sent
  std::size_t ahead_ = 0;            // of these, whose way is decided, and whose bytes the NICs have
  std::deque<Operation*> awaiting_;  // a reply
  Sending sending_ = Sending::kNothing;
  Receiving receiving_ = Receiving::kReply;
  FrameSender frames_;
  FrameReceiver replies_;
  Parts parts_in_, parts_out_;
  Transfer transfer_in_, transfer_out_;
  std::optional<std::string> error_;
  StallWatch watch_;
  std::uint64_t steps_ = 0;                            // for it: of progress() that moved something
  Dialled dialled_;                                    // its router stays
  std::unique_ptr<transport::Connection> connection_;  // ends first
};

}  // namespace tombolo::net_plugin::rma
