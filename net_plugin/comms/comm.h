// NCCL's sendComm and recvComm: the connections of one direction with one peer, and their requests.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>

#include "base/log.h"
#include "net_plugin/abi/types.h"
#include "net_plugin/comms/events.h"
#include "net_plugin/comms/lanes.h"
#include "net_plugin/comms/registration.h"
#include "net_plugin/comms/request.h"
#include "net_plugin/comms/stall.h"
#include "transport/routing/router.h"
#include "transport/transport.h"

namespace tombolo::net_plugin {

/// What one message is sent from, or received into.
struct Buffer {
  std::span<std::byte> data;
  int tag = 0;
  Registration* memory = nullptr;  ///< null: not registered
};

/// Used by one thread at a time, except that register_memory and deregister_memory may be called by another
/// one.
class Comm {
 public:
  enum class Direction { kSend, kReceive };

  /// The connections were made by `router`, which this keeps alive for as long.
  Comm(Direction direction, std::shared_ptr<transport::Router> router, std::unique_ptr<Lanes> lanes, Log log);
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  /// Registers memory of NCCL's pointer type HOST or CUDA; the Comm owns the registration. Throws
  /// kUnsupported, with the reason, where the connection does not carry that kind.
  Registration* register_memory(std::span<std::byte> buffer, int type);
  /// Registers GPU memory exported as DMA-BUF. Throws as register_memory() does.
  Registration* register_dma_buf(std::span<std::byte> range, int file, std::uint64_t offset);
  /// Throws kInvalidUsage for what this Comm did not register. If a request is under way in that memory, as
  /// when NCCL aborts, the connections are closed first, so that nothing reads or writes the memory once this
  /// returns. Closing gives what the peer still needs a bounded time (seconds); meanwhile post() finds no
  /// request free and test() finds nothing done, and then they fail.
  void deregister_memory(const Registration* memory);

  /// Posts one send, or a group of 1 to most_receives() receives. For each tag the n-th message sent with it
  /// goes into the n-th buffer posted with it. ncclSuccess with a null request means "try again": no request
  /// is free, or the tag is new and its lane is being opened. Any other result means that the comm has
  /// failed, or the direction is wrong. post() and test() neither block nor throw, and allocate only where a
  /// tag, or a memory on a lane, is new.
  /// `parents`: of each message's event (events.h).
  abi::ncclResult_t post(Direction direction, std::span<const Buffer> buffers, Request*& request,
                         void* const* parents = nullptr) noexcept;

  /// Waits until the GPU sees what receives have put into these buffers. ncclSuccess with a null request
  /// means that there is nothing to wait for.
  abi::ncclResult_t flush(std::span<const Buffer> buffers, Request*& request) noexcept;

  /// Progresses all connections of the comm. When `done`, the request is free again, and `sizes`, unless it
  /// is null, has the real size of each of its messages.
  abi::ncclResult_t test(Request& request, bool& done, int* sizes) noexcept;

  /// From now on a line tells where nothing moves. Called before the first post.
  void tell_of_stalls(std::shared_ptr<StallReports> reports) noexcept { stalls_ = std::move(reports); }
  /// Tells NCCL's profiler of this comm's messages from now on; null: it is told nothing.
  void observe(abi::ncclProfilerCallback_t callback);

  /// Receives that a post() may group.
  int most_receives() const noexcept { return most_receives_; }
  const Log& log() const noexcept { return log_; }

 private:
  transport::Connection& connection();
  Registration* keep(std::unique_ptr<Registration> memory);
  void abandon(std::unique_lock<std::mutex>& lock);

  abi::ncclResult_t look_at(Request& request, bool& done, int* sizes) noexcept;
  abi::ncclResult_t send(const Buffer& buffer, Request*& request) noexcept;
  abi::ncclResult_t receive(std::span<const Buffer> buffers, Request*& request) noexcept;
  /// False while move_lanes() has something to do.
  bool settled() const noexcept { return waiting_ == 0 && lanes_->settled(); }
  bool move_lanes(const char* operation) noexcept;
  template <typename Action>
  bool attempt(const char* operation, Action&& action) noexcept;
  void post_waiting(Lane& lane) noexcept;
  void look_for_stall(Request& request) noexcept;
  void progress_others() noexcept;

  const char* name() const noexcept { return direction_ == Direction::kSend ? "send" : "receive"; }
  abi::ncclResult_t failed(const char* operation, const Lane* lane) noexcept;
  abi::ncclResult_t failed(const char* operation, Cause cause, std::string_view text) noexcept;

  Direction direction_;
  int most_receives_;
  Log log_;
  std::shared_ptr<transport::Router> router_;
  std::mutex lock_;  // protects all members below: a deregistration in another thread may end the connections
  enum class State : std::uint8_t { kOpen, kAbandoning, kAbandoned };
  State state_ = State::kOpen;
  std::condition_variable closed_;           // state_ has become kAbandoned
  std::optional<abi::ncclResult_t> failed_;  // what was returned and logged when the comm failed
  std::unique_ptr<Lanes> lanes_;             // null unless kOpen
  std::optional<Error> abandoned_;           // why it was abandoned; nothing while kOpen
  Events events_;
  Requests requests_;
  Requests flushes_;  // apart: "none is free" would mean to NCCL that nothing need be flushed
  std::shared_ptr<StallReports> stalls_;  // null: nothing is told
  StallWatch watch_;
  std::size_t waiting_ = 0;  // parts whose lane cannot take them yet
  // The values are null unless kOpen.
  std::unordered_map<const Registration*, std::unique_ptr<Registration>> memories_;
};

}  // namespace tombolo::net_plugin
