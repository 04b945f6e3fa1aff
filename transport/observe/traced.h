// Connections whose messages a Tracer records. They wrap other connections, so that without a trace nothing
// is checked or paid for.
#pragma once

#include <memory>

#include "transport/observe/tracer.h"
#include "transport/transport.h"

namespace tombolo::transport {

/// Each returns what it was given where `tracer` is null. The tracer must outlive what is returned.
std::unique_ptr<Connection> traced(std::unique_ptr<Connection> connection, Tracer* tracer);
std::unique_ptr<Connecting> traced(std::unique_ptr<Connecting> connecting, Tracer* tracer);
std::unique_ptr<Listener> traced(std::unique_ptr<Listener> listener, Tracer* tracer);

}  // namespace tombolo::transport
