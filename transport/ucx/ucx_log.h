// Sends what UCX would print to standard output to our log.
#pragma once

#include "base/dynamic_library.h"
#include "base/log.h"

namespace tombolo::transport::ucx {

/// From here on UCX's lines go to this log (the last one given counts). Its errors are logged as "info",
/// because the connection's own error says what they mean for it. The lines are left to UCX where the
/// environment sets UCX_LOG_LEVEL or UCX_LOG_FILE, and where the library has no such hook. May be called from
/// any thread.
void take_log_of(const DynamicLibrary& ucs, const Log& log);

}  // namespace tombolo::transport::ucx
