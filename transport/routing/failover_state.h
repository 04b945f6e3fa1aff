// The states of a connection that goes on over another way when the one it uses fails, and the only ways from
// one to another. docs/transports.md prints the same table, which a test compares with this one.
//
// A *leg* is the connection of one transport that carries the messages for the time being.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "transport/transitions.h"

namespace tombolo::transport {

enum class FailoverState : std::uint8_t {
  kUp,        ///< a leg carries the messages
  kMoving,    ///< the leg has failed and is fenced: no NIC touches a buffer. Another one is being made
  kAgreeing,  ///< another leg is there; each end tells the other over it what it has received
  kFailed,    ///< the connection has failed, for good
};

enum class FailoverEvent : std::uint8_t {
  kLegLost,  ///< the leg's NICs have failed, at this end or at the other, or it is left for better ones
  kLegMade,  ///< another leg is connected
  kAgreed,   ///< the other end's record has come over it
  kGivenUp,  ///< no way is left, or the failure is not of a way
};

using FailoverTransition = Transition<FailoverState, FailoverEvent>;
inline constexpr std::array kFailoverTransitions = {
    FailoverTransition{FailoverEvent::kLegLost, FailoverState::kUp, FailoverState::kMoving},
    FailoverTransition{FailoverEvent::kLegLost, FailoverState::kAgreeing, FailoverState::kMoving},
    FailoverTransition{FailoverEvent::kLegMade, FailoverState::kMoving, FailoverState::kAgreeing},
    FailoverTransition{FailoverEvent::kAgreed, FailoverState::kAgreeing, FailoverState::kUp},
    FailoverTransition{FailoverEvent::kGivenUp, FailoverState::kUp, FailoverState::kFailed},
    FailoverTransition{FailoverEvent::kGivenUp, FailoverState::kMoving, FailoverState::kFailed},
    FailoverTransition{FailoverEvent::kGivenUp, FailoverState::kAgreeing, FailoverState::kFailed},
};

/// The state that follows; nothing where the event is impossible in this state.
constexpr std::optional<FailoverState> next_state(FailoverState from, FailoverEvent event) noexcept {
  return next_in(kFailoverTransitions, from, event);
}

constexpr const char* to_text(FailoverState state) noexcept {
  switch (state) {
    case FailoverState::kUp:
      return "up";
    case FailoverState::kMoving:
      return "moving";
    case FailoverState::kAgreeing:
      return "agreeing";
    case FailoverState::kFailed:
      return "failed";
  }
  return "?";
}

constexpr const char* to_text(FailoverEvent event) noexcept {
  switch (event) {
    case FailoverEvent::kLegLost:
      return "leg lost";
    case FailoverEvent::kLegMade:
      return "leg made";
    case FailoverEvent::kAgreed:
      return "agreed";
    case FailoverEvent::kGivenUp:
      return "given up";
  }
  return "?";
}

}  // namespace tombolo::transport
