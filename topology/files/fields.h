// Checks that the readers of this room's files share. Each throws kInvalidUsage naming file, line and field.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "topology/nic.h"

namespace tombolo::topology {

/// Reads a name that can be part of "host/nic" in a link, and of a log line: it has no blanks and no control
/// characters.
std::string name_of(const JsonCursor& cursor, bool slash_allowed);
/// Reads the bytes per second that are attained between two ends.
double bandwidth_of(const JsonCursor& cursor);
/// Each of these three reads one figure of a device: FLOP/s, bytes of memory, bytes per second from its
/// memory.
double flops_of(const JsonCursor& cursor);
double memory_of(const JsonCursor& cursor);
double memory_speed_of(const JsonCursor& cursor);
/// Reads a latency in seconds, one way.
double latency_of(const JsonCursor& cursor);
NicKind kind_of(const JsonCursor& cursor);
/// Reads a rate that is written in Gbit/s; returns bits per second.
std::uint64_t rate_of(const JsonCursor& cursor);

/// The end of a message about a name that is not known: "; did you mean ...?" or "; known: ...".
std::string suggestion(std::string_view name, const std::vector<std::string_view>& known);

/// The elements of a set, or the keys of a map.
template <typename Names>
std::vector<std::string_view> views(const Names& names) {
  std::vector<std::string_view> all;
  for (const auto& entry : names) {
    if constexpr (requires { entry.first; }) {
      all.push_back(entry.first);
    } else {
      all.push_back(entry);
    }
  }
  return all;
}

}  // namespace tombolo::topology
