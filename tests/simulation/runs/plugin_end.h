// One end of a connection of NCCL's in a simulated run: what its owner has done and what came of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "net_plugin/comms/handle.h"
#include "tests/simulation/plans/plugin_plan.h"

namespace tombolo::simulation {

// A close may give what it owes an idle timeout. Faults may hold the process up meanwhile.
inline constexpr Duration kLongestPluginClose = 2 * kIdleTimeout;

/// A send, or a group of receives.
struct PluginRequest {
  struct Part {
    std::size_t index = 0;  ///< of the message
    void* memory = nullptr;
    std::vector<std::byte> buffer;
  };
  void* request = nullptr;
  std::vector<Part> parts;
};

struct PluginEnd {
  enum class Role : std::uint8_t { kSender, kReceiver };
  enum class State : std::uint8_t { kConnecting, kOpen, kFinished, kClosed };

  const CommPlan* plan = nullptr;
  unsigned number = 0, host = 0;
  Role role = Role::kSender;
  State state = State::kConnecting;
  void* context = nullptr;
  void* listen_comm = nullptr;
  void* comm = nullptr;
  net_plugin::HandleBytes handle{};  ///< at the receiver: its listener's; at the sender: what connect() gets
  unsigned handles = 0;              ///< that the receiver has made, and that the sender has taken
  bool made = false, aborted = false, aborting = false;
  bool stopped_in_flight = false;
  std::size_t posted_count = 0, paused_for = 0, done = 0;  ///< messages
  std::size_t groups_posted = 0;
  std::vector<PluginRequest> posted;
  std::vector<PluginRequest> broken;  ///< failed; their buffers are not NCCL's before the comm is closed
  std::vector<void*> memories;        ///< of requests that are over
  std::deque<std::vector<std::byte>> over;  ///< buffers whose requests are over, all kOver
  std::string failed;                       ///< the call that failed first
  TimePoint failed_at{};
  std::optional<TimePoint> closing_since;

  bool complete() const noexcept { return done == plan->messages.size(); }
  bool over_by(State least) const noexcept { return state >= least; }
  /// Whether another thread of this end deregisters memory that is in use.
  bool aborts() const noexcept {
    return plan->ending == CommPlan::Ending::kAbort && plan->receiver_aborts == (role == Role::kReceiver);
  }
  /// Whether this end closes with requests under way, now that so much is done.
  bool stops_in_flight() const noexcept {
    return plan->ending == CommPlan::Ending::kInFlight &&
           plan->receiver_aborts == (role == Role::kReceiver) && done >= plan->abort_after && !posted.empty();
  }
  /// Whether the connecting end stops to ask.
  bool gives_up() const noexcept { return plan->ending == CommPlan::Ending::kGiveUp; }
  /// Whether this end has begun an attempt that is kept, so that its peer has to learn the end by other
  /// means.
  bool gave_up_in_shared_context(const PluginPlan& of) const noexcept {
    return gives_up() && role == Role::kSender && of.shared_context && !made && over_by(State::kFinished);
  }

  /// "comm 0 at the sender on h1".
  std::string name() const;
  /// With what it has done, for people.
  std::string doing() const;
};

}  // namespace tombolo::simulation
