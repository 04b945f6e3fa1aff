// A Tracer's events in the trace event format, which Perfetto and chrome://tracing open.
#pragma once

#include <string>

#include "transport/observe/report/exposition.h"
#include "transport/observe/tracer.h"

namespace tombolo::transport::report {

/// Gives each connection one row for its lifetime, stalls, and streams that break and rejoin, and below it
/// rows for its sends and its receives, as many as were in flight at once. Times are times of day, so that
/// the files of several hosts line up as well as their clocks do.
std::string to_chrome_trace(const Tracer& tracer, const Reporter& reporter);

}  // namespace tombolo::transport::report
