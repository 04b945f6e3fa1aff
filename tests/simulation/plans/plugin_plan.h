// What a simulated run beneath the NCCL plugin's contract does.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/simulation/plans/plan.h"

namespace tombolo::simulation {

/// A connection of NCCL's: one host listens and receives, the other connects and sends.
struct CommPlan {
  enum class Ending {
    kTogether,  ///< each end closes once both have done all
    kWhenDone,  ///< each end closes once it has done all itself
    kAbort,     ///< another thread of one end deregisters memory in which a message is under way
    kGiveUp,    ///< the connecting end asks a few times and then never again
    kInFlight,  ///< one end closes with requests under way
  };
  unsigned sender = 0;                   ///< host
  std::vector<std::size_t> messages;     ///< sizes, in the order of the receiver's slots
  std::vector<int> tags;                 ///< of each message; empty: all 0
  std::vector<unsigned> groups;          ///< messages of each irecv, in order; empty: one each
  std::vector<std::size_t> send_order;   ///< the messages as they are sent; empty: in order
  std::vector<Duration> pauses;          ///< before each message is sent
  std::array<unsigned, 2> window{4, 4};  ///< requests posted at once by the sender and the receiver
  bool registered = true;                ///< buffers are registered with the connection
  bool other_handle_first = false;       ///< the handle's memory held another listener's handle before
  bool listener_closes_early = false;    ///< right after accept
  Ending ending = Ending::kTogether;
  bool tells_attributes = false;  ///< NCCL says again and again how it will use connections
  bool receiver_aborts = false;   ///< with kAbort and kInFlight: which end
  std::size_t abort_after = 0;    ///< messages that it has done

  int tag_of(std::size_t message) const noexcept { return tags.empty() ? 0 : tags[message]; }
  bool ends_early() const noexcept { return ending == Ending::kAbort || ending == Ending::kInFlight; }
  /// Leaves a message out, which the receiver's groups and the order of sending then skip.
  void leave_out(std::size_t message);
  friend bool operator==(const CommPlan&, const CommPlan&) = default;
};

struct PluginPlan {
  Plan network;  ///< with faults and without messages
  bool devices_per_nic = false;
  bool shared_context = false;   ///< as up to v10: one context for all connections of a process
  bool finalized_early = false;  ///< contexts end once the connections are made, and not after them
  std::vector<CommPlan> comms;
  friend bool operator==(const PluginPlan&, const PluginPlan&) = default;
};

PluginPlan draw_plugin_plan(std::uint64_t seed, Over over = Over::kTcp);
std::string describe(const PluginPlan& plan);
/// One line of JSON, which decode_plugin_plan() reads. What is as usual need not be there.
std::string encode(const PluginPlan& plan);
PluginPlan decode_plugin_plan(std::string_view text, const std::string& source);

}  // namespace tombolo::simulation
