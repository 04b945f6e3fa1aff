#include "base/parameter.h"

#include <charconv>
#include <cstdlib>
#include <sstream>

#include "base/error.h"
#include "base/units.h"

namespace tombolo {
namespace {

[[noreturn]] void reject(const Parameter& parameter, std::string_view takes) {
  fail(Cause::kInvalidUsage, "{}='{}': expected {} (default '{}'). {}", parameter.name, parameter.text(),
       takes, parameter.default_value, parameter.meaning);
}

template <typename Number>
Number parse_number(const Parameter& parameter, std::string_view takes) {
  std::string value = parameter.text();
  Number number{};
  auto [rest, status] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (status != std::errc{} || rest != value.data() + value.size()) reject(parameter, takes);
  return number;
}

}  // namespace

std::string_view parameter_type_name(ParameterType type) noexcept {
  switch (type) {
    case ParameterType::kInteger:
      return "integer";
    case ParameterType::kSize:
      return "size";
    case ParameterType::kSeconds:
      return "seconds";
    case ParameterType::kBoolean:
      return "boolean";
    case ParameterType::kText:
      return "text";
    case ParameterType::kChoice:
      return "choice";
  }
  return "unknown";
}

bool Parameter::is_set() const noexcept {
  return std::getenv(std::string(name).c_str()) != nullptr;
}

std::string Parameter::text() const {
  const char* value = std::getenv(std::string(name).c_str());
  return value != nullptr ? std::string(value) : std::string(default_value);
}

std::int64_t Parameter::integer() const {
  return parse_number<std::int64_t>(*this, "an integer");
}

std::uint64_t Parameter::size() const {
  return parse_size(text(), name);
}

double Parameter::seconds() const {
  auto value = parse_number<double>(*this, "seconds as a number >= 0");
  if (!(value >= 0)) reject(*this, "seconds as a number >= 0");
  return value;
}

bool Parameter::boolean() const {
  std::string value = text();
  if (value == "1" || value == "true" || value == "yes" || value == "on") return true;
  if (value == "0" || value == "false" || value == "no" || value == "off" || value.empty()) return false;
  reject(*this, "0 or 1");
}

std::string Parameter::choice() const {
  std::string value = text();
  std::istringstream all{std::string(choices)};
  for (std::string one; std::getline(all, one, '|');) {
    if (one == value) return value;
  }
  reject(*this, choices);
}

const Parameter kLogParameter{"TOMBOLO_LOG", ParameterType::kChoice, "warning",
                              "What is logged: errors only, also warnings, also one line per connection and "
                              "decision (info), or everything (trace).",
                              "error|warning|info|trace"};

const std::vector<const Parameter*>& base_parameters() {
  static const std::vector<const Parameter*> all{&kLogParameter};
  return all;
}

}  // namespace tombolo
