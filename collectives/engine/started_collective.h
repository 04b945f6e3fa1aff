// A collective that was started, and how it is carried out.
#pragma once

#include <cstdint>
#include <functional>

#include "base/error.h"
#include "collectives/engine/channels.h"
#include "collectives/engine/collective_call.h"

namespace tombolo::collectives {

/// What a schedule was made for.
struct ScheduleKey {
  Collective collective = Collective::kBarrier;
  Problem problem;
  bool in_place = false;
  bool operator==(const ScheduleKey&) const = default;
};

struct StartedCollective {
  enum class Way : std::uint8_t {
    kDone,        ///< of a rank alone
    kHostMemory,  ///< `ticket.number` is that of the queue of HostCollective
    kMessages,
  };

  CollectiveCall call;
  ScheduleKey key;
  std::uint64_t number = 0;  ///< of this communicator's collectives, from 1; the same on every rank
  Way way = Way::kDone;
  Channels::Ticket ticket;
};

/// One that its caller did not wait for.
struct PendingCollective {
  StartedCollective started;
  /// What is called once, when it is done or has failed; empty where nothing is, or it has been called.
  std::function<void(const Error*)> callback;
};

}  // namespace tombolo::collectives
