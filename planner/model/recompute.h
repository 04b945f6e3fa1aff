// What is computed again in place of being kept.
#pragma once

#include <optional>
#include <string_view>

namespace tombolo::planner {

/// What of a layer's activations is computed again in the backward pass instead of being kept.
enum class Recompute {
  kNone,
  kSelective,  ///< the attention core, or a fused attention that never keeps its weights
  kFull,       ///< all but the layer's input
};
/// "none", "selective", "full".
std::string_view recompute_name(Recompute recompute) noexcept;
std::optional<Recompute> recompute_from_name(std::string_view name) noexcept;

}  // namespace tombolo::planner
