// What all kinds of plans need to be read from JSON and written to it.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>

#include "base/format.h"
#include "base/json.h"
#include "tests/simulation/plans/plan.h"

namespace tombolo::simulation {

/// The index of the name that the cursor's text is.
template <std::size_t N>
std::size_t choice(const JsonCursor& cursor, const std::array<const char*, N>& names) {
  const std::string given = cursor.text();
  for (std::size_t i = 0; i < N; ++i)
    if (given == names[i]) return i;
  cursor.reject(fmt::format("'{}' is none of those that there are", given));
}

// A member of an object into what holds its usual value, which stays where the member is not there.
inline void read_member(const JsonCursor& object, const char* name, bool& into) {
  if (const auto value = object.optional(name)) into = value->boolean();
}
template <std::integral T>
void read_member(const JsonCursor& object, const char* name, T& into, std::int64_t least, std::int64_t most) {
  if (const auto value = object.optional(name)) into = static_cast<T>(value->integer(least, most));
}
inline void read_member(const JsonCursor& object, const char* name, Duration& into) {
  constexpr std::int64_t kMostNanoseconds = 100'000'000'000;
  if (const auto value = object.optional(name)) into = Duration(value->integer(0, kMostNanoseconds));
}
inline void read_member(const JsonCursor& object, const char* name, std::array<unsigned, 2>& into) {
  const auto given = object.optional(name);
  if (!given) return;
  const auto windows = given->elements();
  if (windows.size() != 2) given->reject("expected two numbers");
  for (std::size_t i = 0; i < 2; ++i) into[i] = static_cast<unsigned>(windows[i].integer(1, 64));
}

// Writes a member that is not as usual. The object is Json, of which only those who write know more.
template <typename T>
void write_member(auto& object, const char* name, const T& value, const T& usual) {
  if (value != usual) object[name] = value;
}
void write_member(auto& object, const char* name, Duration value) {
  if (value != Duration::zero()) object[name] = value.count();
}

/// A plan of two owners, or the network of another kind of plan.
Json to_json(const Plan& plan);
/// Its faults have to be there. `hosts`: how many faults may strike.
Plan plan_from(const JsonCursor& root, unsigned hosts);
/// The member "network", which has no messages.
Plan network_from(const JsonCursor& root, unsigned hosts);
Json network_to_json(const Plan& network);

}  // namespace tombolo::simulation
