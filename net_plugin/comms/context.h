// NCCL's ctx: what the plugin keeps for one communicator (from v11 on) or for the process (up to v10).
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "base/clock.h"
#include "base/log.h"
#include "net_plugin/comms/comm.h"
#include "net_plugin/comms/handle.h"
#include "net_plugin/comms/leg.h"
#include "net_plugin/comms/listen_comm.h"
#include "net_plugin/comms/net_attributes.h"
#include "net_plugin/comms/node.h"

namespace tombolo::net_plugin {

/// May be used by any thread at any time. Comms may outlive it; attempts to connect end with it.
class Context {
 public:
  /// `traffic_class`: of all that its connections send, 0 to 255; NCCL_NET_TRAFFIC_CLASS_UNDEF leaves what is
  /// set elsewhere. Throws kInvalidUsage for any other.
  Context(std::shared_ptr<const Node> node, Log log, int traffic_class = abi::NCCL_NET_TRAFFIC_CLASS_UNDEF);

  std::unique_ptr<ListenComm> listen(int device);

  /// Returns null while connecting: NCCL then calls again with the same handle memory until it gets a Comm.
  /// The first call with a memory starts an attempt, the call that returns the Comm (or throws) ends it, and
  /// a later call starts another. One that nobody has asked for as long as connecting may take
  /// (Node::deadline) was abandoned, and ends in the next call of this function, of listen(), or of
  /// drop_abandoned().
  std::unique_ptr<Comm> connect(int device, std::span<const std::byte, abi::NCCL_NET_HANDLE_MAXSIZE> handle) {
    return connect(device, handle, traffic_class_);
  }
  /// The same with a traffic class of this connection alone.
  std::unique_ptr<Comm> connect(int device, std::span<const std::byte, abi::NCCL_NET_HANDLE_MAXSIZE> handle,
                                int traffic_class);

  /// Keeps what NCCL says about the connections to come, and shows it in the log at level trace.
  void set_attributes(const abi::ncclNetAttr_v11_t& attributes);
  const NetAttributes& attributes() const noexcept { return attributes_; }

  void drop_abandoned() noexcept;
  /// Attempts that are kept.
  std::size_t attempts() const;

  const Log& log() const noexcept { return log_; }

  /// What NCCL's init gave to tell its profiler of messages; null where it gave nothing.
  void set_profiler(abi::ncclProfilerCallback_t callback) noexcept { profiler_ = callback; }
  abi::ncclProfilerCallback_t profiler() const noexcept { return profiler_; }

 private:
  struct Attempt {
    TimePoint asked_for{};  // last
    HandleBytes handle{};
    transport::Endpoint peer;
    std::uint32_t comm = 0;  ///< as in LaneLabel
    std::shared_ptr<transport::Router> router;
    std::shared_ptr<const Legs> legs;
    std::unique_ptr<EndpointQuery> asking;  ///< first, where the handle does not tell all NICs
    std::unique_ptr<transport::Connecting> connecting;
    StallWatch watch;

    bool under_way() const noexcept { return asking || connecting; }
  };

  const NetDevice& device(int index) const;
  Attempt start(int device, const HandleBytes& handle, int traffic_class) const;
  void dial(Attempt& attempt) const;
  std::unique_ptr<transport::Connection> progress(Attempt& attempt) const;
  void look_for_stall(Attempt& attempt, int device) const noexcept;
  std::unique_ptr<Comm> finish(Attempt& attempt, std::unique_ptr<transport::Connection> connection) const;

  std::shared_ptr<const Node> node_;
  Log log_;
  int traffic_class_;
  NetAttributes attributes_;
  std::atomic<abi::ncclProfilerCallback_t> profiler_{nullptr};
  mutable std::mutex attempts_lock_;
  std::map<const std::byte*, Attempt> attempts_;  ///< by the address of the handle memory
};

}  // namespace tombolo::net_plugin
