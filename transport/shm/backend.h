// transport/shm/ owns shared memory between processes of one host: a segment with a ring for each direction,
// and copies straight from one process's memory into the other's.
#pragma once

#include <memory>

#include "transport/channel/control_channel.h"

namespace tombolo::transport::shm {

class ShmBackend final : public channel::ControlChannelBackend {
 public:
  /// `fetch`: large messages may be read from the sender's memory.
  explicit ShmBackend(bool fetch) : fetch_(fetch) {}
  Carrier carrier() const noexcept override { return Carrier::kShm; }
  std::unique_ptr<Connecting> set_up(channel::ControlChannel channel) override;

 private:
  bool fetch_;
};

}  // namespace tombolo::transport::shm
