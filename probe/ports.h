// The NICs of this process's host, each with a router of its own.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/engine/communicator.h"
#include "transport/routing/router.h"

namespace tombolo::probe {

/// One NIC's own router: a host with a single NIC leaves nothing to choose. Empty for a NIC that carries
/// nothing. One thread at a time; different ports may be used by different threads.
struct Port {
  std::unique_ptr<transport::Router> router;
  std::unique_ptr<transport::Listener> listener;
};

/// By NIC of `options.router.host`.
std::vector<Port> open_ports(const collectives::Options& options, const transport::Secret& secret);

/// The ports' endpoints as text for the other ranks.
std::string encode_ports(const std::vector<Port>& ports);
/// By NIC; nothing for one that does not listen. Throws kRemote on what encode_ports() did not write.
std::vector<std::optional<transport::Endpoint>> decode_ports(std::string_view text);

/// The connecting end. `what` names both NICs in errors. Throws kTimeout after `allowed`.
std::unique_ptr<transport::Connection> connect_port(Port& port, const transport::Endpoint& endpoint,
                                                    const transport::ConnectOptions& options,
                                                    const std::string& what);
/// The other end: waits for the connection that bears `label`.
std::unique_ptr<transport::Connection> accept_port(Port& port, std::uint64_t label, Duration allowed,
                                                   const std::string& what);

}  // namespace tombolo::probe
