// Copies operands into panels, an order that the micro-kernel reads quickly.
#pragma once

#include <cstddef>

namespace tombolo::compute {

/// to (inner x width) = from (inner x columns, `stride` from row to row), and 0 from `columns` up to `width`.
void pack_panel(float* to, const float* from, std::size_t stride, std::size_t inner, std::size_t columns,
                std::size_t width) noexcept;

/// The same for a transposed matrix: `from` is columns x inner.
void pack_transposed_panel(float* to, const float* from, std::size_t stride, std::size_t inner,
                           std::size_t columns, std::size_t width) noexcept;

}  // namespace tombolo::compute
