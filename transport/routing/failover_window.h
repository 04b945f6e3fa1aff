// The messages of one direction of a connection that outlives its legs.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/request_pool.h"
#include "transport/transport.h"

namespace tombolo::transport {

class FailoverMemory;

/// A posted message. Its buffer stays its own until it is done, so that it can go once more over another leg.
struct FailoverMessage final : Request {
  enum class State : std::uint8_t {
    kFree,
    kWaiting,  ///< not on the leg
    kOnLeg,
    kOnRetiring,  ///< on the leg before, which brings it while the present one takes what follows
    kDone,        ///< and not tested since
  };
  State state = State::kFree;
  std::byte* data = nullptr;  ///< never written through for a send
  std::size_t size = 0;       ///< of the message (send) or the buffer (receive)
  std::size_t bytes = 0;      ///< kDone: of the message
  FailoverMemory* memory = nullptr;
  Request* on_leg = nullptr;   ///< kOnLeg, kOnRetiring
  const Route* way = nullptr;  ///< of the last leg that had it; null: none has
  std::uint64_t sequence = 0;
  FailoverMessage* next_free = nullptr;
};

/// Messages by sequence number (posting order, from 0), from the oldest that its owner has not seen done. The
/// window has a fixed size. Allocates when it is made, and then no more.
class FailoverWindow {
 public:
  FailoverWindow() : pool_(kRequestsPerDirection) {
    for (FailoverMessage& one : pool_) {
      one.next_free = free_;
      free_ = &one;
    }
  }

  std::uint64_t oldest() const noexcept { return oldest_; }  ///< == posted() where all were handed back
  std::uint64_t posted() const noexcept { return posted_; }

  /// Null where the window is full.
  FailoverMessage* post(std::byte* data, std::size_t size, FailoverMemory* memory) noexcept {
    if (posted_ - oldest_ >= kRequestsPerDirection) return nullptr;
    FailoverMessage* message = free_;
    free_ = message->next_free;
    message->state = FailoverMessage::State::kWaiting;
    message->data = data;
    message->size = size;
    message->bytes = 0;
    message->memory = memory;
    message->on_leg = nullptr;
    message->way = nullptr;
    message->sequence = posted_;
    slot(posted_++) = message;
    return message;
  }
  /// Null for one that was handed back, or never posted.
  FailoverMessage* find(std::uint64_t sequence) noexcept {
    return sequence >= oldest_ && sequence < posted_ ? slot(sequence) : nullptr;
  }
  /// Visits the messages in that state, in their order. They may leave it meanwhile.
  template <typename Visit>
  void each(FailoverMessage::State state, Visit&& visit) noexcept {
    for (std::uint64_t sequence = oldest_; sequence < posted_; ++sequence) {
      FailoverMessage* message = find(sequence);
      if (message != nullptr && message->state == state) visit(*message);
    }
  }
  bool done(std::uint64_t sequence) noexcept {
    if (sequence >= posted_) return false;
    const FailoverMessage* message = find(sequence);
    return message == nullptr || message->state == FailoverMessage::State::kDone;
  }
  void hand_back(FailoverMessage& message) noexcept {
    message.state = FailoverMessage::State::kFree;
    message.next_free = free_;
    free_ = &message;
    slot(message.sequence) = nullptr;
    while (oldest_ < posted_ && slot(oldest_) == nullptr) ++oldest_;
  }
  bool owns(const Request* request) const noexcept {
    const auto* message = static_cast<const FailoverMessage*>(request);
    return message >= pool_.data() && message < pool_.data() + pool_.size();
  }

  /// Messages before this one were given to the leg, or need not be.
  std::uint64_t fed() const noexcept { return fed_; }
  void feed_on() noexcept { ++fed_; }
  /// A leg has gone: what is not done begins again, and of what was handed back all from `first` on.
  void rewind(std::uint64_t first = UINT64_MAX) noexcept { fed_ = std::min(first, oldest_); }

 private:
  FailoverMessage*& slot(std::uint64_t sequence) noexcept { return slots_[sequence % kRequestsPerDirection]; }

  std::vector<FailoverMessage> pool_;
  FailoverMessage* free_ = nullptr;
  std::array<FailoverMessage*, kRequestsPerDirection> slots_{};
  std::uint64_t oldest_ = 0, posted_ = 0, fed_ = 0;
};

}  // namespace tombolo::transport
