#include "transport/tcp/stream/stream_state.h"

namespace tombolo::transport::tcp {

const char* to_text(StreamState state) noexcept {
  switch (state) {
    case StreamState::kWanted:
      return "wanted";
    case StreamState::kBroken:
      return "broken";
    case StreamState::kEnded:
      return "ended";
    case StreamState::kLive:
      return "live";
    case StreamState::kSuspect:
      return "suspect";
    case StreamState::kHalfClosed:
      return "half-closed";
  }
  return "?";
}

const char* to_text(StreamEvent event) noexcept {
  switch (event) {
    case StreamEvent::kJoined:
      return "joined";
    case StreamEvent::kSilent:
      return "silent";
    case StreamEvent::kAnswered:
      return "answered";
    case StreamEvent::kPeerClosed:
      return "peer closed";
    case StreamEvent::kLost:
      return "lost";
    case StreamEvent::kEnded:
      return "ended";
  }
  return "?";
}

}  // namespace tombolo::transport::tcp
