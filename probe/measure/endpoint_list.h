// The endpoints of one rank's NICs as text for the other ranks.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transport/endpoint.h"

namespace tombolo::probe {

/// By NIC; nothing for a NIC that does not listen.
using EndpointList = std::vector<std::optional<transport::Endpoint>>;

/// One endpoint after the other, each after its length; a NIC that does not listen has length 0.
std::string encode_endpoints(const EndpointList& endpoints);
/// Throws kRemote on text that encode_endpoints() did not write.
EndpointList decode_endpoints(std::string_view text);

}  // namespace tombolo::probe
