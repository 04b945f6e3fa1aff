// A line for a connect or an accept that does not get on, so that a job which hangs as it begins says where.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/clock.h"
#include "net_plugin/comms/stall.h"
#include "transport/endpoint.h"

namespace tombolo::net_plugin {

struct SetUpStall {
  enum class Of : std::uint8_t {
    kAccept,   ///< no peer has connected
    kConnect,  ///< the peer's NICs are known
    kQuery,    ///< the peer is asked for the NICs for which its handle had no room
  };
  Of of = Of::kConnect;
  std::string device;                         ///< this host's, as NCCL knows it
  std::span<const transport::Offer> offers;   ///< where the listener is: the peer's, for kAccept this host's
  Duration stalled{}, deadline = Duration{};  ///< `deadline`: of a connect
};

/// The line: who waits, over which device, for whom, how long, and what it may mean. Pure.
std::string stall_text(const StallReports& of, const SetUpStall& facts);

}  // namespace tombolo::net_plugin
