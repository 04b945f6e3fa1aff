// The 128 bytes that NCCL carries from the listening rank to the connecting one.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "net_plugin/abi/types.h"
#include "net_plugin/tuner/settings.h"
#include "transport/endpoint.h"
#include "transport/sockets/secret.h"

namespace tombolo::net_plugin {

using HandleBytes = std::array<std::byte, abi::NCCL_NET_HANDLE_MAXSIZE>;

/// How to reach a listener, and the secret that proves to it that NCCL passed the handle on.
struct Handle {
  transport::Secret secret;
  transport::Endpoint endpoint;
  bool groups = true;   ///< whether the listener takes grouped receives (TOMBOLO_NET_GROUPS)
  bool stages = false;  ///< whether the listener stages GPU memory where the transport does not reach it
  /// The listener has NICs for which there was no room, and can be asked for them (endpoint_query.h);
  /// encode() finds that out.
  bool more_nics = false;
  TunerMark tuner = {};  ///< what the listener's tuner goes by

  /// Layout: "TMBL", version, length of the endpoint, flags (bit 0: stages, bit 1: more NICs, bit 2: groups,
  /// bit 3: the tuner has chosen, bits 4 and 5: its mode), low byte of the cluster file's hash, secret,
  /// compact endpoint, zeros.
  HandleBytes encode() const;
  /// Throws kRemote saying what is wrong; most often the other rank uses another net plugin.
  static Handle decode(std::span<const std::byte, abi::NCCL_NET_HANDLE_MAXSIZE> bytes);
};

}  // namespace tombolo::net_plugin
