// A Log that writes through NCCL's own logger, so that the plugin's lines stand among NCCL's.
#pragma once

#include "base/log.h"
#include "net_plugin/abi/types.h"

namespace tombolo::net_plugin {

/// Errors and warnings become WARN; info becomes INFO of subsystems INIT and NET, which NCCL_DEBUG=INFO shows
/// like NCCL's own "via NET/..." lines; trace becomes TRACE. NCCL_DEBUG decides what is shown, so the Log
/// passes on everything up to info. Trace lines are costly to format, so they are passed on only if `level`
/// is trace. `logger` must outlive the Log. With a null logger the Log writes to standard error, up to
/// `level`.
Log nccl_log(abi::ncclDebugLogger_t logger, LogLevel level);

/// The level that TOMBOLO_LOG sets.
LogLevel log_level_from_environment();

}  // namespace tombolo::net_plugin
