// How ranks that divide a row's tokens exchange what attention needs of the others.
#pragma once

#include <optional>
#include <string_view>

namespace tombolo::planner {

enum class ContextExchange {
  kRing,      ///< keys and values go round (arXiv 2310.01889)
  kAllToAll,  ///< tokens are exchanged for heads (arXiv 2309.14509)
};
/// "ring", "all-to-all".
std::string_view context_exchange_name(ContextExchange exchange) noexcept;
std::optional<ContextExchange> context_exchange_from_name(std::string_view name) noexcept;

}  // namespace tombolo::planner
