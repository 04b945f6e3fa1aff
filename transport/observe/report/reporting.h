// What the environment wants reported of this process: one endpoint, one file of meters, one trace.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"
#include "base/parameter.h"
#include "transport/observe/tracer.h"

namespace tombolo::transport::report {

/// Starts what TOMBOLO_METRICS, TOMBOLO_METRICS_FILE and TOMBOLO_TRACE ask for, the first time; files are
/// written when the process ends (or the library is unloaded). A value that makes no sense throws
/// kInvalidUsage; what the system refuses is a warning, since a job must not end for want of a port. `host`
/// is the name to report as. Threads: any.
void start(const std::string& host, const Log& log);

/// Null unless TOMBOLO_TRACE is set, and before start().
Tracer* tracer() noexcept;

/// The port that the endpoint got; 0 without one.
std::uint16_t port() noexcept;

/// %h becomes the host, %p the process, %% a percent sign. Throws kInvalidUsage for others, naming `what`.
std::string expand_pattern(std::string_view pattern, const std::string& host, std::string_view what);

const std::vector<const Parameter*>& parameters();

}  // namespace tombolo::transport::report
