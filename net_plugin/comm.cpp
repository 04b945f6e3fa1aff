#include "net_plugin/comm.h"

#include <algorithm>

#include "net_plugin/result.h"

namespace tombolo::net_plugin {

Comm::Comm(Direction direction, std::shared_ptr<transport::Router> router,
           std::unique_ptr<transport::Connection> connection, Log log)
    : direction_(direction),
      log_(std::move(log)),
      router_(std::move(router)),
      connection_(std::move(connection)) {
  for (auto* all : {&requests_, &flushes_}) {
    for (Request& request : *all) {
      request.comm = this;
      release(request);
    }
  }
}

transport::Memory* Comm::register_memory(std::span<std::byte> buffer, int type) {
  if (type != abi::NCCL_PTR_HOST && type != abi::NCCL_PTR_CUDA) {
    fail(Cause::kUnsupported, "cannot register {} bytes at {}: no such pointer type as {}", buffer.size(),
         static_cast<const void*>(buffer.data()), type);
  }
  return keep(connection().register_memory(
      buffer, type == abi::NCCL_PTR_HOST ? transport::MemoryKind::kHost : transport::MemoryKind::kCuda));
}

transport::Memory* Comm::register_dma_buf(std::span<std::byte> range, int file, std::uint64_t offset) {
  return keep(connection().register_dma_buf(range, file, offset));
}

/// The connection, taken under the lock. The lock is not held while it is used, because registering takes
/// long and posts and tests would wait for it.
transport::Connection& Comm::connection() {
  std::lock_guard guard(lock_);
  if (abandoned_) throw *abandoned_;
  return *connection_;
}

transport::Memory* Comm::keep(std::unique_ptr<transport::Memory> memory) {
  transport::Memory* key = memory.get();
  std::lock_guard guard(lock_);
  memories_.emplace(key, std::move(memory));
  return key;
}

void Comm::deregister_memory(const transport::Memory* memory) {
  std::unique_ptr<transport::Memory> removed;
  std::unique_lock lock(lock_);
  auto found = memories_.find(memory);
  if (found == memories_.end()) {
    fail(Cause::kInvalidUsage,
         "memory handle {} was not registered with this connection, or twice deregistered",
         static_cast<const void*>(memory));
  }
  removed = std::move(found->second);
  memories_.erase(found);
  const auto uses = [&](const Request& request) {
    return request.transport_request != nullptr && request.memory == memory;
  };
  const bool in_use = std::ranges::any_of(requests_, uses) || std::ranges::any_of(flushes_, uses);
  if (!in_use) return;
  if (state_ == State::kOpen) {
    removed.reset();  // registrations must be destroyed before their connection
    abandon(lock);
  }
  closed_.wait(lock, [this] { return state_ == State::kAbandoned; });  // another thread may be closing it
}

/// Closes without the lock, since that may wait for the peer, and post() and test() must not.
void Comm::abandon(std::unique_lock<std::mutex>& lock) {
  abandoned_.emplace(
      Cause::kAborted,
      fmt::format("the connection to {} was closed: memory was deregistered while a {} was "
                  "under way in it",
                  connection_->route().peer_host, direction_ == Direction::kSend ? "send" : "receive"));
  for (auto& [key, memory] : memories_) memory.reset();
  state_ = State::kAbandoning;
  auto closing = std::move(connection_);
  lock.unlock();
  closing.reset();
  lock.lock();
  state_ = State::kAbandoned;
  closed_.notify_all();
}

abi::ncclResult_t Comm::post(Direction direction, std::span<std::byte> data, transport::Memory* memory,
                             Request*& request) noexcept {
  request = nullptr;
  if (direction != direction_) {
    report(log_, direction == Direction::kSend ? "isend" : "irecv",
           "the connection is of the other direction");
    return abi::ncclInvalidUsage;
  }
  std::lock_guard guard(lock_);
  const char* name = direction == Direction::kSend ? "isend" : "irecv";
  if (state_ == State::kAbandoned) return failed(name);
  if (free_ == nullptr || state_ == State::kAbandoning) return abi::ncclSuccess;
  transport::Request* posted = direction == Direction::kSend ? connection_->post_send(data, memory)
                                                             : connection_->post_receive(data, memory);
  if (posted == nullptr) {
    // When the transport's pool is full, NCCL should try again. When the connection is dead it must not,
    // because NCCL would do so for ever.
    return connection_->error() == nullptr ? abi::ncclSuccess : failed(name);
  }
  request = free_;
  free_ = request->next_free;
  request->transport_request = posted;
  request->memory = memory;
  return abi::ncclSuccess;
}

abi::ncclResult_t Comm::flush(std::span<const std::byte> data, transport::Memory* memory,
                              Request*& request) noexcept {
  request = nullptr;
  std::lock_guard guard(lock_);
  if (state_ == State::kAbandoned) return failed("iflush");
  if (state_ == State::kAbandoning) return abi::ncclSuccess;  // what follows fails
  if (free_flush_ == nullptr) {
    report(log_, "iflush", "more flushes are under way than a connection has requests");
    return abi::ncclInternalError;
  }
  transport::Request* posted = connection_->post_flush(data, memory);
  if (posted == nullptr) return connection_->error() == nullptr ? abi::ncclSuccess : failed("iflush");
  request = free_flush_;
  free_flush_ = request->next_free;
  request->transport_request = posted;
  request->memory = memory;
  return abi::ncclSuccess;
}

abi::ncclResult_t Comm::test(Request& request, bool& done, std::size_t& bytes) noexcept {
  done = false;
  std::lock_guard guard(lock_);
  if (request.transport_request == nullptr) {
    report(log_, "test", "the request is not in flight: it was reported done or failed before");
    return abi::ncclInvalidUsage;
  }
  switch (outcome(request, bytes)) {
    case transport::Outcome::kPending:
      return abi::ncclSuccess;
    case transport::Outcome::kDone:
      release(request);
      done = true;
      return abi::ncclSuccess;
    case transport::Outcome::kFailed:
      release(request);
      return failed(direction_ == Direction::kSend ? "send" : "receive");
  }
  return abi::ncclInternalError;
}

transport::Outcome Comm::outcome(Request& request, std::size_t& bytes) noexcept {
  switch (state_) {
    case State::kOpen:
      return connection_->test(request.transport_request, bytes);
    case State::kAbandoning:
      return transport::Outcome::kPending;  // its memory may still be read and written
    case State::kAbandoned:
      break;
  }
  return transport::Outcome::kFailed;
}

const Error* Comm::error() const noexcept {
  return abandoned_ ? &*abandoned_ : connection_->error();
}

abi::ncclResult_t Comm::failed(const char* operation) noexcept {
  const Error* error = this->error();
  // Every request of the connection fails for the same reason, which is logged once.
  if (!reported_)
    report(log_, operation, error != nullptr ? error->what() : "failed without a stated reason");
  reported_ = true;
  return error != nullptr ? result_of(error->cause()) : abi::ncclInternalError;
}

void Comm::release(Request& request) noexcept {
  request.transport_request = nullptr;
  Request*& free = is_flush(request) ? free_flush_ : free_;
  request.next_free = free;
  free = &request;
}

}  // namespace tombolo::net_plugin
