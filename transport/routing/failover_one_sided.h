// One-sided operations of a connection that may move to another way. Its first leg does them. Once that has
// failed those under way are lost, and none is begun any more: the other end's memory is known to the NICs of
// that leg alone.
#pragma once

#include "transport/one_sided.h"

namespace tombolo::transport {

class FailoverConnection;

/// Part of a connection, and used by its owner's thread.
class FailoverOneSided final : public OneSided {
 public:
  explicit FailoverOneSided(FailoverConnection& connection) noexcept : connection_(connection) {}

  std::unique_ptr<OpenWindow> open(std::span<std::byte> memory) override;
  Begun begin(OneSidedOperation& operation) noexcept override;

 private:
  OneSided* of_first_leg() const noexcept;

  FailoverConnection& connection_;
};

}  // namespace tombolo::transport
