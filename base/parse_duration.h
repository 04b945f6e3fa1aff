// Parses durations as people write them.
#pragma once

#include <string_view>

#include "base/clock.h"

namespace tombolo {

/// "20ms", "1.5s", "300us": a number with ns, us, ms or s. Throws kInvalidUsage naming `what` on anything
/// else, below zero and above 1e9 s.
Duration parse_duration(std::string_view text, std::string_view what);

}  // namespace tombolo
