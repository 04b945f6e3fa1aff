// What the readers of Spec share: the built-in specs, quantities of links, and the check of a whole spec.
#pragma once

#include <optional>
#include <string_view>

#include "tools/emulation/spec.h"

namespace tombolo::emulation {

/// The limit on hosts: each costs a namespace, and one machine cannot serve nearly as many.
inline constexpr std::size_t kMaxHosts = 64;

/// Parses "holmes", "two-clusters" or "two-paths" with optional settings; nothing for any other name. Throws
/// kInvalidUsage for a setting that is unknown or out of range.
std::optional<Spec> built_in_spec(std::string_view text);

/// Parses a duration such as "20ms"; at most 10 s. Throws kInvalidUsage naming `what`.
Duration parse_round_trip(std::string_view text, std::string_view what);
/// Parses a share such as "0.1%", which is 0.001. Throws kInvalidUsage naming `what`.
double parse_loss(std::string_view text, std::string_view what);

/// Throws kInvalidUsage naming what in the spec cannot be built.
void validate(const Spec& spec);

}  // namespace tombolo::emulation
