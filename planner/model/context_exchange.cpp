#include "planner/model/context_exchange.h"

#include "planner/model/names.h"

namespace tombolo::planner {

namespace {

constexpr NameTable<ContextExchange, 2> kContextExchanges{
    {{ContextExchange::kRing, "ring"}, {ContextExchange::kAllToAll, "all-to-all"}}};

}  // namespace

std::string_view context_exchange_name(ContextExchange exchange) noexcept {
  return name_in(kContextExchanges, exchange);
}

std::optional<ContextExchange> context_exchange_from_name(std::string_view name) noexcept {
  return value_in(kContextExchanges, name);
}

}  // namespace tombolo::planner
