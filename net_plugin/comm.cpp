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
  for (Operation& operation : operations_) {
    operation.comm = this;
    release(operation);
  }
}

transport::Memory* Comm::register_memory(std::span<std::byte> buffer, int kind) {
  if (kind != abi::kHostPointer) {
    fail(Cause::kUnsupported,
         "cannot register {} bytes at {} of pointer kind {}: this device carries host memory (kind {}) only, "
         "as its "
         "ptrSupport says",
         buffer.size(), static_cast<const void*>(buffer.data()), kind, abi::kHostPointer);
  }
  return keep(connection().register_memory(buffer, transport::MemoryKind::kHost));
}

transport::Memory* Comm::register_dma_buf(std::span<std::byte> range, int file, std::uint64_t offset) {
  return keep(connection().register_dma_buf(range, file, offset));
}

/// To register with, which takes too long to keep posts and tests waiting for it.
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
  std::lock_guard guard(lock_);
  auto found = memories_.find(memory);
  if (found == memories_.end()) {
    fail(Cause::kInvalidUsage,
         "memory handle {} was not registered with this connection, or twice deregistered",
         static_cast<const void*>(memory));
  }
  removed = std::move(found->second);
  memories_.erase(found);
  const bool in_use = std::ranges::any_of(operations_, [&](const Operation& operation) {
    return operation.request != nullptr && operation.memory == memory;
  });
  if (!in_use || abandoned_) return;
  removed.reset();  // registrations go before their connection
  abandon();
}

void Comm::abandon() {
  abandoned_.emplace(
      Cause::kAborted,
      fmt::format("the connection to {} was closed: memory was deregistered while a {} was "
                  "under way in it",
                  connection_->route().peer_host, direction_ == Direction::kSend ? "send" : "receive"));
  for (auto& [key, memory] : memories_) memory.reset();
  connection_.reset();
}

abi::Result Comm::post(Direction direction, std::span<std::byte> data, transport::Memory* memory,
                       Operation*& operation) noexcept {
  operation = nullptr;
  if (direction != direction_) {
    report(log_, direction == Direction::kSend ? "isend" : "irecv",
           "the connection is of the other direction");
    return abi::kInvalidUsage;
  }
  std::lock_guard guard(lock_);
  const char* name = direction == Direction::kSend ? "isend" : "irecv";
  if (abandoned_) return failed(name);
  if (free_ == nullptr) return abi::kSuccess;
  transport::Request* request = direction == Direction::kSend ? connection_->post_send(data, memory)
                                                              : connection_->post_receive(data, memory);
  if (request == nullptr) {
    // Either the transport's pool is full or the connection is dead: NCCL would ask for ever.
    return connection_->error() == nullptr ? abi::kSuccess : failed(name);
  }
  operation = free_;
  free_ = operation->next_free;
  operation->request = request;
  operation->memory = memory;
  return abi::kSuccess;
}

abi::Result Comm::test(Operation& operation, bool& done, std::size_t& bytes) noexcept {
  done = false;
  std::lock_guard guard(lock_);
  if (operation.request == nullptr) {
    report(log_, "test", "the request is not in flight: it was reported done or failed before");
    return abi::kInvalidUsage;
  }
  switch (abandoned_ ? transport::Outcome::kFailed : connection_->test(operation.request, bytes)) {
    case transport::Outcome::kPending:
      return abi::kSuccess;
    case transport::Outcome::kDone:
      release(operation);
      done = true;
      return abi::kSuccess;
    case transport::Outcome::kFailed:
      release(operation);
      return failed(direction_ == Direction::kSend ? "send" : "receive");
  }
  return abi::kInternalError;
}

const Error* Comm::error() const noexcept {
  return abandoned_ ? &*abandoned_ : connection_->error();
}

abi::Result Comm::failed(const char* operation) noexcept {
  const Error* error = this->error();
  // Every request of the connection fails for the one reason: say it once.
  if (!reported_)
    report(log_, operation, error != nullptr ? error->what() : "failed without a stated reason");
  reported_ = true;
  return error != nullptr ? result_of(error->cause()) : abi::kInternalError;
}

void Comm::release(Operation& operation) noexcept {
  operation.request = nullptr;
  operation.next_free = free_;
  free_ = &operation;
}

}  // namespace tombolo::net_plugin
