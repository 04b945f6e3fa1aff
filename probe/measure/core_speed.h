// What one core attains: multiplying matrices, and streaming through memory.
#pragma once

#include <cstddef>

namespace tombolo::probe {

/// FLOPs per second of float32 products of rows x inner by inner x columns, for about `seconds`, on the
/// calling thread.
double time_products(int rows, int inner, int columns, double seconds);

/// Bytes per second of STREAM's triad, a[i] = b[i] + s c[i], for about `seconds` on the calling thread: two
/// arrays read and one written, counted once each (McCalpin's way of counting). `bytes`: of the three
/// together. Throws kSystem where they do not fit in memory.
double time_triad(std::size_t bytes, double seconds);

/// A size for the triad's arrays: four times the last-level cache, but at least 96 MiB and at most 1 GiB,
/// and with `ranks` of them at once at most a quarter of what memory is free.
std::size_t triad_bytes(int ranks);

}  // namespace tombolo::probe
