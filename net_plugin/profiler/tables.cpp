// The tables of NCCL's profiler interface. From 2.28 on NCCL looks for them in the network's library too,
// where no other profiler is set, so they are in every job that uses the plugin; entry_points.h says when
// they record anything.
#include "net_plugin/profiler/table.h"

namespace tombolo::net_plugin {

// The library's version script hides every other symbol.
extern "C" {
#define TOMBOLO_PROFILER(version)                                                           \
  [[gnu::visibility("default")]] abi::ncclProfiler_v##version##_t ncclProfiler_v##version = \
      profiler_entry::table<abi::ncclProfiler_v##version##_t, version>()
TOMBOLO_PROFILER(1);
TOMBOLO_PROFILER(2);
TOMBOLO_PROFILER(3);
TOMBOLO_PROFILER(4);
TOMBOLO_PROFILER(5);
TOMBOLO_PROFILER(6);
TOMBOLO_PROFILER(7);
#undef TOMBOLO_PROFILER
}

}  // namespace tombolo::net_plugin
