// Counts what operator new gave and nobody gave back.
#pragma once

#include <cstdint>

namespace tombolo::simulation {

/// How many allocations the process holds now; always 0 under a sanitizer, which looks for leaks itself. What
/// C libraries take from malloc is not counted.
std::int64_t live_allocations() noexcept;

}  // namespace tombolo::simulation
