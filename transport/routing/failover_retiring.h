// A leg that a connection has left for a better one while it worked, and that still brings what it was given
// (failover_retiring.cpp says how).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "transport/transport.h"

namespace tombolo::transport {

/// A message, by its number on a leg.
using NumberedMessage = std::pair<std::uint64_t, std::vector<std::byte>>;

struct RetiringLeg {
  std::unique_ptr<Connection> leg;
  const Route* way = nullptr;                 ///< the leg's, and its connection's as long as that lives
  std::uint64_t number = 0;                   ///< the leg's
  std::uint64_t sends_end = 0;                ///< it takes no send from this one on
  std::optional<std::uint64_t> receives_end;  ///< nor a receive, as the peer has said
  /// Empty messages, each end's last over that leg: that it has all which was to come over it.
  Request *farewell_out = nullptr, *farewell_in = nullptr;
  int farewells = 0;  ///< of both ends, that are over
  bool lost = false;  ///< it has failed with one of its messages
  /// What came over the next leg, which failed before `receives_end` was known.
  std::vector<NumberedMessage> unplaced;
};

/// What the connecting end is still to tell the other.
struct FailoverNotice {
  std::uint64_t label = 0;  ///< which says it
  std::unique_ptr<Connecting> stream;
  TimePoint try_again{};
};

}  // namespace tombolo::transport
