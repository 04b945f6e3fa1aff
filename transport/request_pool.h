// Pools of a fixed number of requests, so that the hot path allocates nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

#include "transport/transport.h"

namespace tombolo::transport {

/// Per connection and direction. NCCL keeps up to 32 requests of 8 parts each in flight.
inline constexpr std::size_t kRequestsPerDirection = 256;

/// One posted send or receive, as every backend needs it.
struct PostedRequest final : Request {
  enum class State : std::uint8_t { kFree, kPosted, kDone };

  std::byte* data = nullptr;  ///< never written through for a send
  std::size_t size = 0;       ///< of the message (send) or the buffer (receive)
  std::size_t moved = 0;      ///< bytes of finished chunks
  std::size_t claimed = 0;    ///< receive: bytes of chunks that have begun
  std::size_t total = 0;      ///< receive: the message's size, once known
  bool known = false;         ///< receive: total is set
  std::uint64_t seams = 0;    ///< receive: hashes of where chunks begin, less those of where they end
  bool is_send = false;
  State state = State::kFree;
  PostedRequest* next_free = nullptr;
};

/// The unfinished requests of one direction, by sequence number (posting order, from 0). The window has a
/// fixed size: one slow request limits how far posting may run ahead of it.
class Window {
 public:
  bool full() const noexcept { return posted_ - oldest_ >= kRequestsPerDirection; }
  bool empty() const noexcept { return posted_ == oldest_; }
  std::uint64_t oldest() const noexcept { return oldest_; }  ///< unfinished; == posted() when none
  std::uint64_t posted() const noexcept { return posted_; }

  void push(PostedRequest* request) noexcept { slot(posted_++) = request; }
  /// The request of that number; null for one that is finished or was never posted.
  PostedRequest* find(std::uint64_t sequence) noexcept {
    return sequence >= oldest_ && sequence < posted_ ? slot(sequence) : nullptr;
  }
  const PostedRequest* find(std::uint64_t sequence) const noexcept {
    return sequence >= oldest_ && sequence < posted_ ? slots_[sequence % kRequestsPerDirection] : nullptr;
  }
  void finish(std::uint64_t sequence) noexcept {
    slot(sequence) = nullptr;
    while (oldest_ < posted_ && slot(oldest_) == nullptr) ++oldest_;
  }

 private:
  PostedRequest*& slot(std::uint64_t sequence) noexcept { return slots_[sequence % kRequestsPerDirection]; }
  std::array<PostedRequest*, kRequestsPerDirection> slots_{};
  std::uint64_t oldest_ = 0, posted_ = 0;
};

/// Memory for all requests is reserved at once, but not touched before so many are in flight, because of a
/// thousand connections most use few.
class RequestPool {
 public:
  explicit RequestPool(bool is_send, std::size_t count = kRequestsPerDirection)
      : requests_(std::allocator<PostedRequest>().allocate(count), Free{count}), is_send_(is_send) {}

  /// A free request; null when all are in use.
  PostedRequest* take(std::byte* data, std::size_t size) noexcept {
    PostedRequest* request = free_;
    if (request != nullptr) {
      free_ = request->next_free;
    } else if (made_ < requests_.get_deleter().count) {
      request = std::construct_at(requests_.get() + made_++);
      request->is_send = is_send_;
    } else {
      return nullptr;
    }
    request->data = data;
    request->size = size;
    request->moved = 0;
    request->claimed = 0;
    request->total = 0;
    request->known = false;
    request->seams = 0;
    request->state = PostedRequest::State::kPosted;
    return request;
  }

  void put(PostedRequest* request) noexcept {
    request->state = PostedRequest::State::kFree;
    request->next_free = free_;
    free_ = request;
  }

 private:
  static_assert(std::is_trivially_destructible_v<PostedRequest>);
  struct Free {
    std::size_t count;
    void operator()(PostedRequest* all) const noexcept {
      std::allocator<PostedRequest>().deallocate(all, count);
    }
  };

  std::unique_ptr<PostedRequest, Free> requests_;
  std::size_t made_ = 0;
  bool is_send_;
  PostedRequest* free_ = nullptr;
};

/// The requests of one connection.
class Requests {
 public:
  /// A request for what is sent, which is only read; null where all are in use.
  PostedRequest* send(std::span<const std::byte> data) noexcept {
    return sends_.take(const_cast<std::byte*>(data.data()), data.size());
  }
  PostedRequest* receive(std::span<std::byte> buffer) noexcept {
    return receives_.take(buffer.data(), buffer.size());
  }
  /// Ends every test(): a request that is done, or whose connection has failed, goes back to its pool.
  Outcome hand_back(PostedRequest& request, bool failed, std::size_t& bytes) noexcept {
    const bool done = request.state == PostedRequest::State::kDone;
    if (!done && !failed) return Outcome::kPending;
    bytes = done ? request.moved : 0;
    (request.is_send ? sends_ : receives_).put(&request);
    return done ? Outcome::kDone : Outcome::kFailed;
  }

 private:
  RequestPool sends_{true}, receives_{false};
};

}  // namespace tombolo::transport
