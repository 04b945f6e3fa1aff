// Tables of transitions: which state follows when something happens in another. An event that no row names is
// impossible in that state.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

namespace tombolo::transport {

template <typename State, typename Event>
struct Transition {
  Event event;
  State from, to;
};

/// The state that follows; nothing where the event is impossible in this state.
template <typename State, typename Event, std::size_t kRows>
constexpr std::optional<State> next_in(const std::array<Transition<State, Event>, kRows>& table, State from,
                                       Event event) noexcept {
  for (const Transition<State, Event>& one : table)
    if (one.from == from && one.event == event) return one.to;
  return std::nullopt;
}

}  // namespace tombolo::transport
