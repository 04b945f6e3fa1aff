// A node (NCCL's word for a host): the devices that NCCL sees on it, and the settings by which the router
// picks a transport.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "net_plugin/comms/endpoint_query.h"
#include "net_plugin/comms/stall.h"
#include "net_plugin/devices/devices.h"
#include "net_plugin/devices/nccl_environment.h"
#include "net_plugin/gpu/support.h"
#include "net_plugin/tuner/settings.h"
#include "topology/files/cluster_file.h"
#include "transport/routing/router.h"

namespace tombolo::net_plugin {

/// The communicators of a process share it. Nothing in it changes but that NCCL adds devices.
struct Node {
  std::unique_ptr<DeviceList> devices;
  transport::RouterOptions router;  ///< each device's router gets its host, secret and log besides
  Duration deadline{};
  std::shared_ptr<gpu::Support> gpu = std::make_shared<gpu::Support>();  ///< never null
  std::unique_ptr<EndpointCache> peers = std::make_unique<EndpointCache>();
  std::shared_ptr<StallReports> stalls;  ///< null: nothing is told of comms that wait
  /// What this process's tuner goes by; must outlive the node. Null: none.
  const TunerSettings* tuner = nullptr;
  NcclEnvironment environment;
  std::vector<topology::Nic> nics;  ///< all of the host, used or not, each with its reason
  std::string source;               ///< where they are from, to be shown
  bool groups = true;               ///< whether irecv takes groups (TOMBOLO_NET_GROUPS)
};

/// A warning for a host whose NICs in use are all virtual, tunnels or loopback; otherwise empty.
std::string poor_choice_warning(const topology::Host& host);

/// Reads the cluster file, or detects the hardware where there is none, and reads the environment. Logs
/// poor_choice_warning(), unless a cluster file or a variable names the NICs.
Node make_node(const Log& log);

}  // namespace tombolo::net_plugin
