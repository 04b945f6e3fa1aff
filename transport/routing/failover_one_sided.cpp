#include "transport/routing/failover_one_sided.h"

#include "base/error.h"
#include "transport/routing/failover_connection.h"

namespace tombolo::transport {

/// Null once the connection has left it. The caller has the turn.
OneSided* FailoverOneSided::of_first_leg() const noexcept {
  const FailoverConnection& of = connection_;
  return of.moves_ == 0 && of.state_ == FailoverState::kUp && of.leg_ != nullptr ? of.leg_->one_sided()
                                                                                 : nullptr;
}

std::unique_ptr<OpenWindow> FailoverOneSided::open(std::span<std::byte> memory) {
  const FailoverConnection::Call call(connection_);
  OneSided* leg = of_first_leg();
  if (leg == nullptr) fail(Cause::kUnsupported, "the connection has left its first way");
  return leg->open(memory);
}

OneSided::Begun FailoverOneSided::begin(OneSidedOperation& operation) noexcept {
  const FailoverConnection::Call call(connection_);
  OneSided* leg = of_first_leg();
  return leg != nullptr ? leg->begin(operation) : Begun::kNever;
}

}  // namespace tombolo::transport
