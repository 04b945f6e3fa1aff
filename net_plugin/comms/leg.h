// Legs: the connections of a comm as it uses them. A leg is the transport's own connection, or that wrapped
// for GPU memory.
#pragma once

#include <cstdint>
#include <memory>

#include "base/log.h"
#include "net_plugin/gpu/staged_connection.h"
#include "net_plugin/gpu/support.h"
#include "transport/gpu_staging.h"
#include "transport/transport.h"

namespace tombolo::net_plugin {

/// How the connections of one comm become legs. A connection stages if either end wants that and its
/// transport reaches host memory alone. Both ends see the same transport, and each tells the other what it
/// wants: the listening end in its handle, the connecting one in the label of each connection. So they agree.
/// Threads: any.
class Legs {
 public:
  /// Set in ConnectOptions::label by a connecting end that wants to stage (the bit that LaneLabel leaves
  /// free).
  static constexpr std::uint64_t kLabelStages = std::uint64_t{1} << 32;

  /// `wants`: whether this end wants to stage; `peer_wants`: what the handle says of the listener, at the
  /// connecting end; `overlong`: what becomes of messages that are larger than their receives.
  Legs(std::shared_ptr<gpu::Support> support, gpu::Directions directions, bool wants, bool peer_wants,
       transport::Overlong overlong, Log log)
      : support_(std::move(support)),
        directions_(directions),
        wants_(wants),
        peer_wants_(peer_wants),
        overlong_(overlong),
        log_(std::move(log)) {}

  /// What a connecting end adds to its label.
  std::uint64_t label() const noexcept { return wants_ ? kLabelStages : 0; }

  /// For connections over NICs that may go on over other ways: RouterOptions::gpu_staging.
  transport::GpuStagingMaker further_legs() const;

  /// Throws where memory for staging cannot be had. Null stays null.
  std::unique_ptr<transport::Connection> leg(std::unique_ptr<transport::Connection> connection) const;
  /// One whose connection is a leg.
  std::unique_ptr<transport::Connecting> leg(std::unique_ptr<transport::Connecting> connecting) const;

 private:
  /// Whether a connection of that label stages where its transport reaches host memory alone.
  bool stages(std::uint64_t label) const noexcept {
    return wants_ || peer_wants_ || (label & kLabelStages) != 0;
  }

  std::shared_ptr<gpu::Support> support_;
  gpu::Directions directions_;
  bool wants_, peer_wants_;
  transport::Overlong overlong_;
  Log log_;
};

}  // namespace tombolo::net_plugin
