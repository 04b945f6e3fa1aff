// What the plugin's own profiler does, by its environment parameter. The folder profiler/ owns NCCL's
// profiler interface: what became of each message of the plugin, as a trace or as sums.
#pragma once

#include <cstdint>
#include <string>

#include "base/parameter.h"

namespace tombolo::net_plugin {

/// TOMBOLO_PROFILER: empty, trace, trace:PATH or meters.
extern const Parameter kProfilerParameter;

struct ProfilerSettings {
  enum class Mode : std::uint8_t {
    kOff,     ///< NCCL is asked for no events
    kTrace,   ///< a timeline of messages is written
    kMeters,  ///< each communicator's sums are logged when it ends
  };
  Mode mode = Mode::kOff;
  std::string path;  ///< kTrace: of the file

  /// Reads TOMBOLO_PROFILER. Throws kInvalidUsage.
  static ProfilerSettings from_environment();
};

}  // namespace tombolo::net_plugin
