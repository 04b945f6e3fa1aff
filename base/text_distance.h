// "did you mean ...?" for misspelt names.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace tombolo {

/// Fewest insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
std::size_t text_distance(std::string_view a, std::string_view b);

/// The known name closest to `name`, or nothing where none is near enough to be what was meant (a third of
/// the letters differ).
std::optional<std::string_view> nearest_name(std::string_view name, std::span<const std::string_view> known);

}  // namespace tombolo
