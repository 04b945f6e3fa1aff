// A Tracer's events in the trace event format, which Perfetto and chrome://tracing open.
#pragma once

#include <string>

#include "transport/observe/report/exposition.h"
#include "transport/observe/tracer.h"

namespace tombolo::transport::report {

/// One row per connection for its lifetime, stalls and streams' ends; and below it rows for its sends and its
/// receives, as many as were in flight at once. Times are of the day, so that the files of several hosts fit
/// together as well as their clocks do.
std::string to_chrome_trace(const Tracer& tracer, const Reporter& reporter);

}  // namespace tombolo::transport::report
