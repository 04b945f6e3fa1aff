// The rules of the algorithms that move vectors in few steps instead of few bytes, in words.
#pragma once

#include <string>

#include "base/format.h"
#include "base/units.h"
#include "collectives/schedule/rank_map.h"
#include "collectives/schedule/tuning.h"

namespace tombolo::collectives {

/// Of a vector that every rank has whole.
inline std::string few_bytes(const RankMap&, const Tuning& tuning) {
  return fmt::format("vectors of at most {}", format_size(tuning.small_bytes));
}

/// Of one of which each rank has a part.
inline std::string few_bytes_in_all(const RankMap&, const Tuning& tuning) {
  return fmt::format("at most {} in the parts of all ranks", format_size(tuning.small_bytes));
}

}  // namespace tombolo::collectives
