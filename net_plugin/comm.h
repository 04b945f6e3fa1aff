// A connection as NCCL holds it: one direction, and requests that know which connection they belong to.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>

#include "base/log.h"
#include "net_plugin/abi/constants.h"
#include "transport/routing/router.h"
#include "transport/transport.h"

namespace tombolo::net_plugin {

class Comm;

/// NCCL's request. It lives in its Comm's pool and is valid until its test() reports done or fails.
struct Operation {
  Comm* comm = nullptr;
  transport::Request* request = nullptr;
  const transport::Memory* memory = nullptr;
  Operation* next_free = nullptr;
};

/// Threads: one at a time, except that register_memory and deregister_memory may come from another one.
class Comm {
 public:
  enum class Direction { kSend, kReceive };

  /// `router` made `connection` and is kept for as long.
  Comm(Direction direction, std::shared_ptr<transport::Router> router,
       std::unique_ptr<transport::Connection> connection, Log log);
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  /// The registration stays the Comm's. Throws kUnsupported for anything but host memory.
  transport::Memory* register_memory(std::span<std::byte> buffer, int kind);
  /// Of GPU memory. Throws kUnsupported, with the reason, where the connection cannot carry it.
  transport::Memory* register_dma_buf(std::span<std::byte> range, int file, std::uint64_t offset);
  /// Throws kInvalidUsage for what this Comm did not register. With an operation under way in that memory, as
  /// when NCCL aborts, the connection is closed first: nothing reads or writes the memory once this returns.
  void deregister_memory(const transport::Memory* memory);

  /// kSuccess with a null operation: no request is free, try again. Another result: the connection has
  /// failed, or the direction is wrong. Neither blocks, throws nor allocates.
  abi::Result post(Direction direction, std::span<std::byte> data, transport::Memory* memory,
                   Operation*& operation) noexcept;

  /// Progresses the connection. Done: `bytes` is the message's real size and the operation is free again.
  abi::Result test(Operation& operation, bool& done, std::size_t& bytes) noexcept;

  const Log& log() const noexcept { return log_; }

 private:
  transport::Connection& connection();
  transport::Memory* keep(std::unique_ptr<transport::Memory> memory);
  void abandon();
  const Error* error() const noexcept;
  abi::Result failed(const char* operation) noexcept;
  void release(Operation& operation) noexcept;

  Direction direction_;
  Log log_;
  bool reported_ = false;
  std::shared_ptr<transport::Router> router_;
  std::mutex lock_;  // of all below: a deregistration from another thread may end the connection
  std::unique_ptr<transport::Connection> connection_;  // null once abandoned
  std::optional<Error> abandoned_;                     // why
  std::array<Operation, abi::kRequestsPerComm> operations_;
  Operation* free_ = nullptr;
  // Once abandoned, of null pointers.
  std::unordered_map<const transport::Memory*, std::unique_ptr<transport::Memory>> memories_;
};

}  // namespace tombolo::net_plugin
