// The speed of one core: in multiplying matrices, and in streaming through memory.
#pragma once

#include <cstddef>

namespace tombolo::probe {

/// FLOPs per second of float32 products of a rows x inner by an inner x columns matrix, measured for about
/// `seconds` on the calling thread.
double time_products(int rows, int inner, int columns, double seconds);

/// Bytes per second of STREAM's triad, a[i] = b[i] + s c[i], measured for about `seconds` on the calling
/// thread: two arrays are read and one is written, each counted once (as McCalpin counts). `bytes` is the
/// size of the three together. Throws kSystem where they do not fit in memory.
double time_triad(std::size_t bytes, double seconds);

/// The size for the triad's arrays together: four times the last-level cache, but at least 96 MiB and at most
/// 1 GiB, and such that `ranks` of them at once take at most a quarter of the free memory.
std::size_t triad_bytes(int ranks);

}  // namespace tombolo::probe
