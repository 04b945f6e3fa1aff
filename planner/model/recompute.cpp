#include "planner/model/recompute.h"

#include "planner/model/names.h"

namespace tombolo::planner {

namespace {

constexpr NameTable<Recompute, 3> kRecomputes{
    {{Recompute::kNone, "none"}, {Recompute::kSelective, "selective"}, {Recompute::kFull, "full"}}};

}  // namespace

std::string_view recompute_name(Recompute recompute) noexcept {
  return name_in(kRecomputes, recompute);
}

std::optional<Recompute> recompute_from_name(std::string_view name) noexcept {
  return value_in(kRecomputes, name);
}

}  // namespace tombolo::planner
