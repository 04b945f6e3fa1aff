// The environment variables that Tombolo reads, collected from every room.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/parameter.h"

namespace tombolo::tools {

struct RoomParameters {
  std::string_view room;
  const std::vector<const Parameter*>& parameters;
};

std::vector<RoomParameters> all_parameters();

/// Why the current value cannot be used, or nothing where it can.
std::optional<std::string> problem_of(const Parameter& parameter);

/// The current value in a form that may be printed: a secret that is set is shown as "(hidden)".
std::string shown_value(const Parameter& parameter);

/// One line for each variable in the environment that begins with TOMBOLO_ and that nothing reads.
std::vector<std::string> unknown_variables();

}  // namespace tombolo::tools
