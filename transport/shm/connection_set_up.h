// How the two ends of a control channel set up a segment that both have mapped, and find out whether each may
// read the other's memory.
#pragma once

#include <memory>

#include "transport/channel/channel_set_up.h"
#include "transport/shm/connection.h"
#include "transport/shm/set_up_message.h"

namespace tombolo::transport::shm {

class ConnectionSetUp final : public channel::ChannelSetUp<SetUpMessage> {
 public:
  /// `fetch`: this end is willing to read the other's memory.
  ConnectionSetUp(channel::ControlChannel channel, bool fetch);

 private:
  Kind hear(const SetUpMessage& message) override;
  void hear_proof(const SetUpMessage& message) override;
  std::unique_ptr<Connection> make() override;

  SetUpMessage mine(Kind kind) const;
  void prove_for(const SetUpMessage& peer);

  Agreed agreed_;
  Descriptor file_;  // of the segment that this end made
  std::uint64_t value_ = 0;
  bool may_fetch_;
  bool can_fetch_ = false;
};

}  // namespace tombolo::transport::shm
