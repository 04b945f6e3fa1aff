// A pipeline's stages cut into model chunks.
#pragma once

#include <optional>
#include <string_view>

#include "planner/plan/plan.h"

namespace tombolo::planner {

struct InChunks {
  std::optional<Plan> plan;  ///< without a prediction of its own
  std::string_view why_not;  ///< where there is none, in words that follow "not interleaved"
};

/// A plan of 1F1B with schedule interleaved: each stage keeps its ranks and its number of layers, in that
/// many chunks, of which the first have one layer more where they are no equal parts.
InChunks in_chunks(const Plan& plan, int chunks);

}  // namespace tombolo::planner
