// This folder makes what is counted and traced readable from outside the process: as Prometheus series and
// JSON (exposition.h) over HTTP (server.h, http.h), in files, and as a timeline (chrome_trace.h).
//
// This file starts what the environment asks for: one endpoint, one file of meters, one trace.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"
#include "base/parameter.h"
#include "transport/observe/tracer.h"

namespace tombolo::transport::report {

/// Starts what TOMBOLO_METRICS, TOMBOLO_METRICS_FILE and TOMBOLO_TRACE ask for; only the first call does
/// anything. The files are written when the process ends or the library is unloaded. A malformed value throws
/// kInvalidUsage; what the system refuses is a warning, because a job must not end for want of a port. `host`
/// is the name to report as. May be called from any thread.
void start(const std::string& host, const Log& log);

/// The process's tracer; null unless TOMBOLO_TRACE is set, and before start().
Tracer* tracer() noexcept;

/// The port on which the endpoint listens; 0 without an endpoint.
std::uint16_t port() noexcept;

/// Replaces %h by the host, %p by the process id and %% by a percent sign. Throws kInvalidUsage for any other
/// letter, naming `what`.
std::string expand_pattern(std::string_view pattern, const std::string& host, std::string_view what);

const std::vector<const Parameter*>& parameters();

}  // namespace tombolo::transport::report
