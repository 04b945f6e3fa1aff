// Tables that give the values of an enumeration their names.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace tombolo::planner {

template <typename Value, std::size_t kCount>
using NameTable = std::array<std::pair<Value, std::string_view>, kCount>;

/// The name of `value`; "?" where the table lacks it.
template <typename Value, std::size_t kCount>
constexpr std::string_view name_in(const NameTable<Value, kCount>& names, Value value) noexcept {
  for (const auto& [one, name] : names)
    if (one == value) return name;
  return "?";
}

/// The value of that name; nothing where there is none.
template <typename Value, std::size_t kCount>
constexpr std::optional<Value> value_in(const NameTable<Value, kCount>& names,
                                        std::string_view name) noexcept {
  for (const auto& [one, its_name] : names)
    if (its_name == name) return one;
  return std::nullopt;
}

}  // namespace tombolo::planner
