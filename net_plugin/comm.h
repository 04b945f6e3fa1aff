// NCCL's sendComm and recvComm: a connection of one direction, and its requests.
#pragma once

#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>

#include "base/log.h"
#include "net_plugin/abi/types.h"
#include "transport/routing/router.h"
#include "transport/transport.h"

namespace tombolo::net_plugin {

class Comm;

/// NCCL's request: a send or receive under way. It lives in its Comm's pool and is valid until its test()
/// reports done or fails.
struct Request {
  Comm* comm = nullptr;  ///< NCCL's test() gets the request alone
  transport::Request* transport_request = nullptr;
  const transport::Memory* memory = nullptr;
  Request* next_free = nullptr;
};

/// Used by one thread at a time, except that register_memory and deregister_memory may be called by another
/// one.
class Comm {
 public:
  enum class Direction { kSend, kReceive };

  /// `connection` was made by `router`, which this keeps alive for as long.
  Comm(Direction direction, std::shared_ptr<transport::Router> router,
       std::unique_ptr<transport::Connection> connection, Log log);
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  /// Registers memory of NCCL's pointer type HOST or CUDA; the Comm owns the registration. Throws
  /// kUnsupported, with the reason, where the connection does not carry that kind.
  transport::Memory* register_memory(std::span<std::byte> buffer, int type);
  /// Registers GPU memory exported as DMA-BUF. Throws as register_memory() does.
  transport::Memory* register_dma_buf(std::span<std::byte> range, int file, std::uint64_t offset);
  /// Throws kInvalidUsage for what this Comm did not register. If a request is under way in that memory, as
  /// when NCCL aborts, the connection is closed first, so that nothing reads or writes the memory once this
  /// returns. Closing gives what the peer still needs a bounded time (seconds); meanwhile post() finds no
  /// request free and test() finds nothing done, and then they fail.
  void deregister_memory(const transport::Memory* memory);

  /// Posts a message. ncclSuccess with a null request means that none is free, and NCCL tries again. Any
  /// other result means that the connection has failed, or the direction is wrong. post() and test() neither
  /// block, throw nor allocate.
  abi::ncclResult_t post(Direction direction, std::span<std::byte> data, transport::Memory* memory,
                         Request*& request) noexcept;

  /// Waits for what a receive has put into GPU memory. ncclSuccess with a null request means that there is
  /// nothing to wait for.
  abi::ncclResult_t flush(std::span<const std::byte> data, transport::Memory* memory,
                          Request*& request) noexcept;

  /// Progresses the connection. When `done`, `bytes` is the message's real size and the request is free
  /// again.
  abi::ncclResult_t test(Request& request, bool& done, std::size_t& bytes) noexcept;

  const Log& log() const noexcept { return log_; }

 private:
  transport::Connection& connection();
  transport::Memory* keep(std::unique_ptr<transport::Memory> memory);
  void abandon(std::unique_lock<std::mutex>& lock);
  transport::Outcome outcome(Request& request, std::size_t& bytes) noexcept;
  const Error* error() const noexcept;
  abi::ncclResult_t failed(const char* operation) noexcept;
  void release(Request& request) noexcept;
  bool is_flush(const Request& request) const noexcept {
    return &request >= flushes_.data() && &request < flushes_.data() + flushes_.size();
  }

  Direction direction_;
  Log log_;
  bool reported_ = false;
  std::shared_ptr<transport::Router> router_;
  std::mutex lock_;  // protects all members below: a deregistration in another thread may end the connection
  enum class State : std::uint8_t { kOpen, kAbandoning, kAbandoned };
  State state_ = State::kOpen;
  std::condition_variable closed_;                     // state_ has become kAbandoned
  std::unique_ptr<transport::Connection> connection_;  // null unless kOpen
  std::optional<Error> abandoned_;                     // why it was abandoned; nothing while kOpen
  std::array<Request, abi::NCCL_NET_MAX_REQUESTS> requests_;
  Request* free_ = nullptr;
  // Apart from the others: "none is free" would mean to NCCL that nothing need be flushed.
  std::array<Request, abi::NCCL_NET_MAX_REQUESTS> flushes_;
  Request* free_flush_ = nullptr;
  // The values are null unless kOpen.
  std::unordered_map<const transport::Memory*, std::unique_ptr<transport::Memory>> memories_;
};

}  // namespace tombolo::net_plugin
