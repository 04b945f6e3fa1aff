// NCCL's request, its parts, and the pool that a comm takes them from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "transport/transport.h"

namespace tombolo::net_plugin {

class Comm;
class Registration;
struct Lane;

/// One message of a request.
struct Part {
  enum class State : std::uint8_t {
    kWaiting,  ///< a receive whose lane cannot take it yet
    kPosted,   ///< its lane's connection has it
    kDone,
    kFailed,
  };

  Lane* lane = nullptr;
  transport::Request* posted = nullptr;
  Registration* memory = nullptr;
  std::span<std::byte> data;
  std::size_t bytes = 0;  ///< kDone: the message's real size
  void* event = nullptr;  ///< of NCCL's profiler, which events.h starts and stops
  Part* next_waiting = nullptr;
  State state = State::kDone;

  bool under_way() const noexcept { return state == State::kWaiting || state == State::kPosted; }
};

class Requests;

/// A send, a group of receives, or a flush of such a group, under way. It lives in its Comm's pool and is
/// valid until test() reports it done; one that failed stays in use, because others of its parts may still be
/// written.
struct Request {
  Comm* comm = nullptr;   ///< NCCL's test() gets the request alone
  std::size_t count = 0;  ///< of the parts in use; 0 while it is free
  Part* all_parts = nullptr;
  Requests* pool = nullptr;
  Request* next_free = nullptr;

  std::span<Part> parts() noexcept { return {all_parts, count}; }
};

/// A fixed number of requests. Memory for all is reserved at once, but not touched before so many are in
/// flight, because of a thousand comms most use few.
class Requests {
 public:
  Requests(Comm& comm, std::size_t requests, std::size_t parts_of_each)
      : comm_(comm),
        parts_of_each_(parts_of_each),
        requests_(std::allocator<Request>().allocate(requests), Free<Request>{requests}),
        parts_(std::allocator<Part>().allocate(requests * parts_of_each),
               Free<Part>{requests * parts_of_each}) {}

  bool empty() const noexcept { return free_ == nullptr && made_ == requests_.get_deleter().count; }

  /// A free request with so many parts, which are as they were left; null when all are in use.
  Request* take(std::size_t parts) noexcept {
    if (empty()) return nullptr;
    Request* request = free_;
    if (request != nullptr) {
      free_ = request->next_free;
    } else {
      request = std::construct_at(requests_.get() + made_);
      request->comm = &comm_;
      request->pool = this;
      request->all_parts = parts_.get() + made_ * parts_of_each_;
      std::uninitialized_value_construct_n(request->all_parts, parts_of_each_);
      ++made_;
    }
    request->count = parts;
    return request;
  }
  void put(Request& request) noexcept {
    request.count = 0;
    request.next_free = free_;
    free_ = &request;
  }

  /// Whether a message is under way in that memory.
  bool any_under_way_in(const Registration* memory) const noexcept {
    for (std::size_t i = 0; i < made_; ++i)
      for (const Part& part : requests_[i].parts())
        if (part.under_way() && part.memory == memory) return true;
    return false;
  }

 private:
  static_assert(std::is_trivially_destructible_v<Request> && std::is_trivially_destructible_v<Part>);
  template <typename T>
  struct Free {
    std::size_t count;
    void operator()(T* all) const noexcept { std::allocator<T>().deallocate(all, count); }
  };
  template <typename T>
  using Array = std::unique_ptr<T[], Free<T>>;

  Comm& comm_;
  std::size_t parts_of_each_;
  Array<Request> requests_;
  Array<Part> parts_;
  std::size_t made_ = 0;
  Request* free_ = nullptr;
};

}  // namespace tombolo::net_plugin
