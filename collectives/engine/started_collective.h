// A collective that was started, and how it is carried out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "base/error.h"
#include "collectives/engine/channels.h"
#include "collectives/engine/collective_call.h"
#include "collectives/gpu/staged.h"
#include "collectives/schedule/choice.h"

namespace tombolo::collectives {

/// What a schedule was made for.
struct ScheduleKey {
  Collective collective = Collective::kBarrier;
  Problem problem;
  bool in_place = false;
  bool operator==(const ScheduleKey&) const = default;
};

/// Who carries a collective out.
struct CarriedOut {
  enum class Way : std::uint8_t {
    kDone,        ///< of a rank alone
    kHostMemory,  ///< `ticket.number` is that of the queue of HostCollective
    kMessages,
  };
  Way way = Way::kDone;
  Channels::Ticket ticket;
};

/// A collective that begins once what it reads is in host memory, and those that were called before it have
/// begun: every rank must begin those of a channel in the same order.
struct DeferredCollective {
  CollectiveCall call;  ///< on host memory
  ScheduleKey key;
  std::optional<Choice> choice;  ///< nothing for a rank alone
  std::size_t channel = 0;
  std::shared_ptr<gpu::Staged> staged;  ///< null: none of its buffers is GPU memory
  bool begun = false;
  CarriedOut by{};  ///< once it has begun
};

struct StartedCollective {
  CollectiveCall call;
  ScheduleKey key;
  std::uint64_t number = 0;  ///< of this communicator's collectives, from 1; the same on every rank
  CarriedOut by{};
  std::shared_ptr<DeferredCollective> deferred = nullptr;  ///< null: it has begun as it was called

  const CarriedOut& carried_out() const noexcept { return deferred ? deferred->by : by; }
};

/// One that its caller did not wait for.
struct PendingCollective {
  StartedCollective started;
  /// What is called once, when it is done or has failed; empty where nothing is, or it has been called.
  std::function<void(const Error*)> callback;
};

}  // namespace tombolo::collectives
