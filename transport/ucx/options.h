// Tuning of the UCX backend. Everything else is UCX's own environment (UCX_TLS, UCX_NET_DEVICES, ...).
#pragma once

#include <string>

namespace tombolo::transport {

struct UcxOptions {
  /// UCX's transports, as in UCX_TLS ("rc,ud", "^tcp"); empty = UCX_TLS, or where that is not set what the
  /// route asks for.
  std::string transports = {};
};

}  // namespace tombolo::transport
