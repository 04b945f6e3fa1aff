// The states of one stream of a TCP connection, and the only ways from one to another. docs/transports.md
// prints the same table, which a test compares with this one.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "transport/transitions.h"

namespace tombolo::transport::tcp {

/// Those without a socket come first. Attempts to open a stream are no state of it: they also run beside a
/// suspect stream, and beside one that is to return to its own NICs (lifecycle/reconnector.h).
enum class StreamState : std::uint8_t {
  kWanted,      ///< it has never been there
  kBroken,      ///< it was lost by a failure of its path, or replaced
  kEnded,       ///< the peer's kernel ended it in order, but the peer's process said no goodbye
  kLive,        ///< carries bytes both ways
  kSuspect,     ///< its path answers nothing; it may recover
  kHalfClosed,  ///< the peer closed it, and not all that it had sent is delivered yet; nothing is written to
                ///< it
};
constexpr bool is_live(StreamState state) noexcept {
  return state >= StreamState::kLive;
}

enum class StreamEvent : std::uint8_t {
  kJoined,      ///< a socket was connected and passed the handshake
  kSilent,      ///< the peer's kernel has left packets unanswered for too long
  kAnswered,    ///< the peer's kernel answers again
  kPeerClosed,  ///< a write failed, and everything that the peer sent has come, including its end
  kLost,        ///< the socket failed, its bytes were altered, or either end gave it up
  kEnded,       ///< the peer's kernel has ended it, and no goodbye came
};

using StreamTransition = Transition<StreamState, StreamEvent>;
inline constexpr std::array kStreamTransitions = {
    StreamTransition{StreamEvent::kJoined, StreamState::kWanted, StreamState::kLive},
    StreamTransition{StreamEvent::kJoined, StreamState::kBroken, StreamState::kLive},
    StreamTransition{StreamEvent::kJoined, StreamState::kEnded, StreamState::kLive},
    StreamTransition{StreamEvent::kSilent, StreamState::kLive, StreamState::kSuspect},
    StreamTransition{StreamEvent::kAnswered, StreamState::kSuspect, StreamState::kLive},
    StreamTransition{StreamEvent::kPeerClosed, StreamState::kLive, StreamState::kHalfClosed},
    StreamTransition{StreamEvent::kPeerClosed, StreamState::kSuspect, StreamState::kHalfClosed},
    StreamTransition{StreamEvent::kLost, StreamState::kLive, StreamState::kBroken},
    StreamTransition{StreamEvent::kLost, StreamState::kSuspect, StreamState::kBroken},
    StreamTransition{StreamEvent::kLost, StreamState::kHalfClosed, StreamState::kBroken},
    StreamTransition{StreamEvent::kEnded, StreamState::kLive, StreamState::kEnded},
    StreamTransition{StreamEvent::kEnded, StreamState::kSuspect, StreamState::kEnded},
    StreamTransition{StreamEvent::kEnded, StreamState::kHalfClosed, StreamState::kEnded},
};

/// The state that follows; nothing where the event is impossible in this state.
constexpr std::optional<StreamState> next_state(StreamState from, StreamEvent event) noexcept {
  return next_in(kStreamTransitions, from, event);
}

const char* to_text(StreamState state) noexcept;
const char* to_text(StreamEvent event) noexcept;

}  // namespace tombolo::transport::tcp
