// One router per NIC of this process's host.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collectives/engine/communicator.h"
#include "probe/measure/endpoint_list.h"
#include "transport/routing/router.h"

namespace tombolo::probe {

/// A router that knows only one NIC, so that it has nothing to choose. Empty for a NIC that cannot be used.
/// Used by one thread at a time; different threads may use different NicRouters.
struct NicRouter {
  std::unique_ptr<transport::Router> router;
  std::unique_ptr<transport::Listener> listener;
};

/// Makes one for each NIC of `options.router.host`.
std::vector<NicRouter> open_nic_routers(const collectives::Options& options, const transport::Secret& secret);

/// The listeners' endpoints, for the other ranks.
EndpointList endpoints_of(const std::vector<NicRouter>& nics);

/// Connects to a peer. `what` names both NICs in errors. Throws kTimeout after `options.deadline`.
std::unique_ptr<transport::Connection> connect_from(NicRouter& nic, const transport::Endpoint& endpoint,
                                                    const transport::ConnectOptions& options,
                                                    const std::string& what);
/// The other end: waits for the connection that has `label`. Throws kTimeout after `allowed`.
std::unique_ptr<transport::Connection> accept_at(NicRouter& nic, std::uint64_t label, Duration allowed,
                                                 const std::string& what);

}  // namespace tombolo::probe
