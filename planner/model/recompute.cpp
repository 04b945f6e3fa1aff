#include "planner/model/recompute.h"

#include <array>
#include <utility>

namespace tombolo::planner {

namespace {

constexpr std::array<std::pair<Recompute, std::string_view>, 3> kRecomputes{
    {{Recompute::kNone, "none"}, {Recompute::kSelective, "selective"}, {Recompute::kFull, "full"}}};

}  // namespace

std::string_view recompute_name(Recompute recompute) noexcept {
  for (const auto& [one, name] : kRecomputes)
    if (one == recompute) return name;
  return "?";
}

std::optional<Recompute> recompute_from_name(std::string_view name) noexcept {
  for (const auto& [one, its_name] : kRecomputes)
    if (its_name == name) return one;
  return std::nullopt;
}

}  // namespace tombolo::planner
