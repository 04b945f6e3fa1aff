// transport/memory/ owns the transport within a process: two connected in-process connections, for tests of
// everything above the transport.
#pragma once

#include <memory>
#include <utility>

#include "transport/observe/meters.h"
#include "transport/transport.h"

namespace tombolo::transport::memory {

/// Each end may be used by its own thread, and is counted in `meters` unless that is null. Data is copied
/// once, from the sender's buffer to the receiver's.
std::pair<std::unique_ptr<Connection>, std::unique_ptr<Connection>> make_pair(
    std::uint64_t label = 0, const std::shared_ptr<Meters>& meters = nullptr);

}  // namespace tombolo::transport::memory
