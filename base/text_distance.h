// Finds the name that was meant by a misspelt one, for "did you mean ...?".
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace tombolo {

/// The fewest insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
std::size_t text_distance(std::string_view a, std::string_view b);

/// The known name closest to `name`; nothing where none is near enough to have been meant (at most a third of
/// the letters may differ).
std::optional<std::string_view> nearest_name(std::string_view name, std::span<const std::string_view> known);

}  // namespace tombolo
