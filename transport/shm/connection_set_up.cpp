#include "transport/shm/connection_set_up.h"

#include <sys/socket.h>

#include "base/error.h"
#include "transport/kernel.h"
#include "transport/sockets/secret.h"

namespace tombolo::transport::shm {

ConnectionSetUp::ConnectionSetUp(channel::ControlChannel channel, Fetch fetch)
    : ChannelSetUp(std::move(channel), "shm", "shared memory was"), fetch_(fetch) {
  random_bytes(nonce_);
  if (!channel_.connecting) return;
  agreed_.mapping = Mapping::create(file_);
  say(mine(Kind::kOffer));
}

ConnectionSetUp::~ConnectionSetUp() {
  // This comes before the memory goes that the peer looks at: see NotThere. Afterwards make() has the socket.
  if (channel_.socket) kernel().shutdown(channel_.socket.get(), SHUT_RDWR);
}

SetUpMessage ConnectionSetUp::mine(Kind kind) const {
  SetUpMessage message;
  message.kind = kind;
  message.can_fetch = can_fetch_;
  message.descriptor = file_ ? static_cast<std::uint32_t>(file_.get()) : 0;
  message.process = static_cast<std::uint64_t>(kernel().getpid());
  message.witness = agreed_.witness.address();
  message.nonce = nonce_;
  return message;
}

/// Takes the peer's offer or answer: whom it says to be, and what this end is to keep for it.
void ConnectionSetUp::meet(const SetUpMessage& peer) {
  const auto process = static_cast<std::int64_t>(peer.process);
  if (const std::string why = why_not_the_peer(channel_.socket.get(), process); !why.empty())
    throw NotThere(why);
  agreed_.peer = PeerMemory(process, peer.witness, nonce_);
  agreed_.witness.keep(peer.nonce);
}

ConnectionSetUp::Kind ConnectionSetUp::hear(const SetUpMessage& message) {
  if (message.segment_bytes != sizeof(Segment))
    fail(Cause::kUnsupported, "the peer's segment has another layout");
  meet(message);
  if (channel_.connecting) {
    agreed_.mapping->nonce = message.nonce;
    prove_after_reading();
  } else {
    descriptor_ = message.descriptor;
    say(mine(Kind::kAnswer));
  }
  return Kind::kProved;
}

void ConnectionSetUp::hear_proof(const SetUpMessage& peer) {
  if (!channel_.connecting) {
    try {
      agreed_.mapping = Mapping::open(agreed_.peer.process(), static_cast<int>(descriptor_));
    } catch (const Error& error) {
      if (error.cause() != Cause::kUnsupported) throw;
      throw NotThere(error.what());
    }
    if (agreed_.mapping->nonce != nonce_) fail(Cause::kUnsupported, "that is another process's segment");
    prove_after_reading();
  }
  agreed_.fetch = can_fetch_ && peer.can_fetch ? fetch_ : Fetch::kNever;
  file_ = Descriptor();  // the mappings keep the memory
}

/// Tells the peer that this end is ready, after an attempt to read the nonce in the peer's memory.
void ConnectionSetUp::prove_after_reading() {
  const auto outcome = fetch_ != Fetch::kNever ? agreed_.peer.verify() : PeerMemory::Outcome::kForbidden;
  if (outcome == PeerMemory::Outcome::kNotThePeer) {
    throw NotThere(fmt::format(
        "the peer says to be process {}, but that process's memory does not hold what this end gave the peer",
        agreed_.peer.process()));
  }
  can_fetch_ = outcome == PeerMemory::Outcome::kRead;
  prove(mine(Kind::kProved));
}

std::unique_ptr<Connection> ConnectionSetUp::make() {
  channel_.log.info(
      "{}: {}", description_,
      agreed_.fetch != Fetch::kNever
          ? "a receiver may read large messages in the sender's memory (one copy)"
          : "all messages are copied through the ring, since one end may not read the other's memory "
            "(TOMBOLO_SHM_FETCH=off, kernel.yama.ptrace_scope, or a container)");
  return std::make_unique<ShmConnection>(std::move(channel_), std::move(agreed_));
}

}  // namespace tombolo::transport::shm
