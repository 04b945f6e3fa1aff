// Messages over the stream that authenticated the two ends, each behind a header with its size.
#pragma once

#include "transport/channel/control_channel.h"

namespace tombolo::transport::stream {

/// In the product this is Carrier::kStream.
inline constexpr Carrier kCarrier{4};

class StreamBackend final : public channel::ControlChannelBackend {
 public:
  Carrier carrier() const noexcept override { return kCarrier; }
  std::unique_ptr<Connecting> set_up(channel::ControlChannel channel) override;
};

}  // namespace tombolo::transport::stream
