// What ranks that hang say of themselves in the shape of PyTorch's flight recorder (version 2.10), which
// PyTorch's own analyzer reads: torch.distributed.flight_recorder.fr_trace. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "tools/stuck/findings.h"

namespace tombolo::tools::stuck {

/// The dump of one rank that has a report: version, pg_config, pg_status, rank, and an entry for each of the
/// last collectives of the communicators in which it waits. Collectives have the names of PyTorch's NCCL
/// backend, which every version of the analyzer knows; times are in nanoseconds since 1970, by the rank's own
/// clock, and null where nobody has noted them. Throws kInvalidUsage where the rank has no report.
nlohmann::json flight_record_of(const RankView& rank);

/// The value in Python's pickle format (protocol 2), which is what the analyzer reads; an array becomes a
/// list.
std::string pickled(const nlohmann::json& value);

}  // namespace tombolo::tools::stuck
