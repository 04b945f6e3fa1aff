// A leg: a connection as a comm uses it. It is the transport's own, or that wrapped for GPU memory.
#pragma once

#include <cstdint>
#include <memory>

#include "base/log.h"
#include "net_plugin/gpu/staged_connection.h"
#include "net_plugin/gpu/support.h"
#include "transport/transport.h"

namespace tombolo::net_plugin {

/// Set in ConnectOptions::label by a connecting end that stages; the listening end says so in its handle.
inline constexpr std::uint64_t kLabelStages = std::uint64_t{1} << 32;

/// Wraps the connection if either end wants staging and its transport needs it. Both ends call this with the
/// same answers, and see the same transport, so that they agree. Throws where memory for it cannot be had.
std::unique_ptr<transport::Connection> make_leg(std::unique_ptr<transport::Connection> connection,
                                                gpu::Directions directions, bool either_wants_staging,
                                                gpu::Support& support, const Log& log);

}  // namespace tombolo::net_plugin
