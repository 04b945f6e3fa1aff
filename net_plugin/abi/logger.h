// NCCL's logging callback, handed to init().
#pragma once

#include <cstdint>

namespace tombolo::net_plugin::abi {

/// printf-like; filters by NCCL_DEBUG and NCCL_DEBUG_SUBSYS itself; may be called from any thread.
using Logger = void (*)(int level, unsigned long subsystems, const char* file, int line, const char* format,
                        ...);

inline constexpr int kLogWarn = 2;
inline constexpr int kLogInfo = 3;
inline constexpr int kLogTrace = 5;

/// Subsystem bits. NCCL_DEBUG=INFO alone shows what carries the first.
inline constexpr unsigned long kLogInit = 0x1;
inline constexpr unsigned long kLogNet = 0x10;
inline constexpr unsigned long kLogAll = ~0UL;

/// Records network events in NCCL's profiler (v10+). Tombolo reports none.
using ProfilerCallback = int (*)(void** event, int type, void* parent, std::int64_t plugin_id, void* data);

}  // namespace tombolo::net_plugin::abi
