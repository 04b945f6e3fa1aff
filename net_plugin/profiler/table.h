// NCCL's table of profiler functions in any of its versions.
#pragma once

#include "net_plugin/abi/profiler.h"
#include "net_plugin/entry_points.h"
#include "net_plugin/profiler/entry_points.h"

namespace tombolo::net_plugin::profiler_entry {

// Each name has an overload per argument list, and a table's member selects the one of its own type.

template <bool network_events>
abi::ncclResult_t init_version(void** context, int* mask) {
  return init(context, mask, {}, network_events);
}
template <bool>
abi::ncclResult_t init_version(void** context, int* mask, const char* name, std::uint64_t id, int, int, int,
                               abi::ncclDebugLogger_t logger) {
  return init(context, mask, {name, id, logger}, true);
}
template <bool>
abi::ncclResult_t init_version(void** context, std::uint64_t id, int* mask, const char* name, int, int, int,
                               abi::ncclDebugLogger_t logger) {
  return init(context, mask, {name, id, logger}, true);
}

/// What a description says that it is of: "AllReduce", "Send", ...; null where its version has no such text.
template <typename Description>
const char* collective_of(const Description& description) {
  if constexpr (requires { description.coll.func; }) {
    if (description.type == abi::ncclProfileColl) return description.coll.func;
    if (description.type == abi::ncclProfileP2p) return description.p2p.func;
  }
  return nullptr;
}

template <typename Description>
abi::ncclResult_t start_version(void* context, void** event, Description* description) {
  if (const char* collective = collective_of(*description))
    return start_collective(context, event, collective);
  return start(context, event, description->type, description->parentObj, description->rank,
               description->detail);
}

inline abi::ncclResult_t record_version(void* event, abi::ncclProfilerEventState_t state,
                                        abi::ncclProfilerEventStateArgs_v1_t*) {
  return record(event, state, nullptr);
}
inline abi::ncclResult_t record_version(void* event, abi::ncclProfilerEventState_t state,
                                        abi::ncclProfilerEventStateArgs_v4_t* arguments) {
  const bool update = state == abi::ncclProfilerNetPluginUpdate && arguments != nullptr;
  return record(event, state, update ? arguments->netPlugin.data : nullptr);
}

/// Networks' events came with v3.
template <typename Table, int version>
Table table() {
  Table made{};
  made.name = entry::name();
  made.init = init_version<(version >= 3)>;
  made.startEvent = start_version;
  made.stopEvent = stop;
  made.recordEventState = record_version;
  made.finalize = finalize;
  return made;
}

}  // namespace tombolo::net_plugin::profiler_entry
