// What the replicas of a model divide among themselves in place of each keeping all of it.
#pragma once

#include <optional>
#include <string_view>

namespace tombolo::planner {

/// The stages of ZeRO (arXiv 1910.02054). Each divides what the one before divides, and more.
enum class Sharding {
  kNone,
  kOptimizer,   ///< the optimizer's state (ZeRO-1)
  kGradients,   ///< the gradients too (ZeRO-2)
  kParameters,  ///< the parameters too; each layer's are gathered where it computes (ZeRO-3, FSDP)
};
/// "none", "optimizer", "gradients", "parameters".
std::string_view sharding_name(Sharding sharding) noexcept;
std::optional<Sharding> sharding_from_name(std::string_view name) noexcept;

}  // namespace tombolo::planner
