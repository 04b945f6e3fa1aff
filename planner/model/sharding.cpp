#include "planner/model/sharding.h"

#include "planner/model/names.h"

namespace tombolo::planner {

namespace {

constexpr NameTable<Sharding, 4> kShardings{{{Sharding::kNone, "none"},
                                             {Sharding::kOptimizer, "optimizer"},
                                             {Sharding::kGradients, "gradients"},
                                             {Sharding::kParameters, "parameters"}}};

}  // namespace

std::string_view sharding_name(Sharding sharding) noexcept {
  return name_in(kShardings, sharding);
}

std::optional<Sharding> sharding_from_name(std::string_view name) noexcept {
  return value_in(kShardings, name);
}

}  // namespace tombolo::planner
