// How the two ends of a control channel set up a segment that both have mapped, make sure that each is the
// process that it says to be, and find out whether each may read the other's memory.
#pragma once

#include <memory>

#include "transport/channel/channel_set_up.h"
#include "transport/shm/connection.h"
#include "transport/shm/set_up_message.h"

namespace tombolo::transport::shm {

class ConnectionSetUp final : public channel::ChannelSetUp<SetUpMessage> {
 public:
  /// `fetch`: how this end sends large messages, and unless it is kNever, it may read the other's memory.
  ConnectionSetUp(channel::ControlChannel channel, Fetch fetch);
  ~ConnectionSetUp() override;

 private:
  Kind hear(const SetUpMessage& message) override;
  void hear_proof(const SetUpMessage& message) override;
  std::unique_ptr<Connection> make() override;

  SetUpMessage mine(Kind kind) const;
  void meet(const SetUpMessage& peer);
  void prove_after_reading();

  Agreed agreed_;
  Descriptor file_;               // of the segment that this end made
  std::uint32_t descriptor_ = 0;  // accepting end: of that file, in the peer
  Nonce nonce_{};                 // which the peer is to keep
  Fetch fetch_;
  bool can_fetch_ = false;
};

}  // namespace tombolo::transport::shm
