#pragma once

#include <cstddef>

namespace tombolo::planner {

/// Converts a count to an index: ranks, stages and layers are counted with int, containers are indexed with
/// std::size_t.
constexpr std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

}  // namespace tombolo::planner
