// NCCL's listenComm: the door at which comms arrive, and the handle that leads to it.
#pragma once

#include <memory>
#include <string>

#include "base/log.h"
#include "net_plugin/comms/comm.h"
#include "net_plugin/comms/door.h"
#include "net_plugin/comms/handle.h"
#include "net_plugin/comms/leg.h"
#include "net_plugin/comms/node.h"
#include "transport/routing/router.h"

namespace tombolo::net_plugin {

/// What NCCL hands over of ncclConfig_t's trafficClass, which is what its user wrote: 0 to 255, or
/// NCCL_NET_TRAFFIC_CLASS_UNDEF for none. NCCL's own word for a member that is not set, INT_MIN, becomes
/// that. Throws kInvalidUsage for others.
int checked_traffic_class(int traffic_class);

/// Makes a router for one listener, or for one connection to it, because every listener has a secret of its
/// own. `legs`: what its connections become, which carry what NCCL registers, GPU memory too; null: they
/// carry host memory alone. Either goes on over another way when its NICs fail; one that has GPU memory
/// registered and does not stage fails with them.
std::shared_ptr<transport::Router> make_router(const Node& node, const NetDevice& device,
                                               const transport::Secret& secret, const Log& log,
                                               int traffic_class, const Legs* legs);

/// Used by one thread at a time. Comms that it accepted may outlive it.
class ListenComm {
 public:
  ListenComm(const Node& node, const NetDevice& device, Log log, int traffic_class);
  ~ListenComm();
  ListenComm(const ListenComm&) = delete;
  ListenComm& operator=(const ListenComm&) = delete;

  /// The handle that NCCL carries to the connecting ranks.
  HandleBytes handle() const;
  /// Accepts one Comm for each connect(); returns null while there is none, and NCCL then calls again.
  std::unique_ptr<Comm> accept();
  const Log& log() const noexcept { return log_; }

  /// As in Context.
  void set_profiler(abi::ncclProfilerCallback_t callback) noexcept { profiler_ = callback; }
  abi::ncclProfilerCallback_t profiler() const noexcept { return profiler_; }

 private:
  void look_for_stall() noexcept;

  Log log_;
  std::string device_;  // its name
  bool stages_;
  Legs legs_;
  abi::ncclProfilerCallback_t profiler_ = nullptr;
  bool groups_;
  const TunerSettings* tuner_;
  std::shared_ptr<StallReports> stalls_;
  StallWatch watch_;
  const Clock& clock_;
  transport::Secret secret_;
  std::shared_ptr<Door> door_;
};

}  // namespace tombolo::net_plugin
