// What UCX would print to standard output, told to our log.
#pragma once

#include "base/dynamic_library.h"
#include "base/log.h"

namespace tombolo::transport::ucx {

/// From here on UCX's lines go to this log (the last one given counts), its errors as "info", for what they
/// mean to a connection its error says. Left to UCX where the environment sets UCX_LOG_LEVEL or UCX_LOG_FILE,
/// and where the library has no such hook. Threads: any.
void take_log_of(const DynamicLibrary& ucs, const Log& log);

}  // namespace tombolo::transport::ucx
