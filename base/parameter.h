// Environment parameters are declared in one place per room: each room lists its own, `tombolo env` prints
// them all, and a value that does not parse is an error that names the variable.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tombolo {

enum class ParameterType { kInteger, kSize, kSeconds, kBoolean, kText, kChoice };

std::string_view parameter_type_name(ParameterType type) noexcept;

/// One declared variable. All text has static lifetime.
struct Parameter {
  std::string_view name;  ///< "TOMBOLO_DEADLINE"
  ParameterType type;
  std::string_view default_value;  ///< as a user would write it; "" = unset
  std::string_view meaning;        ///< one or two sentences, with units
  std::string_view choices = {};   ///< for kChoice: "per-peer|shared"

  /// The text of the environment, or the default.
  std::string text() const;
  /// Whether the environment sets it.
  bool is_set() const noexcept;

  // Each of these throws kInvalidUsage, naming the variable, its value and what it accepts.
  std::int64_t integer() const;
  std::uint64_t size() const;
  double seconds() const;
  bool boolean() const;
  /// The value as one of `choices`.
  std::string choice() const;
};

/// The parameters of base/ itself.
const std::vector<const Parameter*>& base_parameters();

/// TOMBOLO_LOG: error, warning, info or trace.
extern const Parameter kLogParameter;

}  // namespace tombolo
