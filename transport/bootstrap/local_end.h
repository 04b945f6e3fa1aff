// One router, as seen by those that connect to it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "transport/bootstrap/local.h"
#include "transport/endpoint.h"

namespace tombolo::transport::bootstrap {

/// Immutable once made. What accepts streams is shared by all routers of a process; this says by which secret
/// and settings a stream is judged that comes to one of them, and over which of its NICs it came.
struct LocalEnd {
  std::shared_ptr<const Local> local;
  Endpoint endpoint;  ///< with the ports; its `listener` is 0
  /// It has no transports any more, and only tells peers that what they ask for is closed.
  bool answers_only = false;

  /// The index of the offer that has this address, where `nth` others before it have the same.
  std::optional<std::size_t> offer_at(const std::string& address, std::size_t nth) const noexcept {
    for (std::size_t i = 0; i < endpoint.offers.size(); ++i)
      if (endpoint.offers[i].address == address && nth-- == 0) return i;
    return std::nullopt;
  }
};

}  // namespace tombolo::transport::bootstrap
