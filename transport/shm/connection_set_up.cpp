#include "transport/shm/connection_set_up.h"

#include <sys/uio.h>
#include <unistd.h>

#include "base/error.h"
#include "transport/sockets/secret.h"

namespace tombolo::transport::shm {
namespace {

bool can_read(const SetUpMessage& peer) {
  std::uint64_t got = 0;
  iovec mine{&got, sizeof got}, theirs{reinterpret_cast<void*>(peer.address), sizeof got};
  return process_vm_readv(static_cast<pid_t>(peer.process), &mine, 1, &theirs, 1, 0) == sizeof got &&
         got == peer.value;
}

}  // namespace

ConnectionSetUp::ConnectionSetUp(channel::ControlChannel channel, bool fetch)
    : ChannelSetUp(std::move(channel), "shm", "shared memory was"), may_fetch_(fetch) {
  random_bytes(std::as_writable_bytes(std::span(&value_, 1)));
  if (!channel_.connecting) return;
  SetUpMessage offer = mine(Kind::kOffer);
  agreed_.mapping = Mapping::create(file_);
  random_bytes(offer.token);
  agreed_.mapping->token = offer.token;
  offer.descriptor = static_cast<std::uint32_t>(file_.get());
  say(offer);
}

SetUpMessage ConnectionSetUp::mine(Kind kind) const {
  SetUpMessage message;
  message.kind = kind;
  message.can_fetch = can_fetch_;
  message.process = static_cast<std::uint64_t>(::getpid());
  message.address = reinterpret_cast<std::uint64_t>(&value_);
  message.value = value_;
  return message;
}

ConnectionSetUp::Kind ConnectionSetUp::hear(const SetUpMessage& offer) {
  if (offer.segment_bytes != sizeof(Segment))
    fail(Cause::kUnsupported, "the peer's segment has another layout");
  agreed_.mapping =
      Mapping::open(static_cast<std::int64_t>(offer.process), static_cast<int>(offer.descriptor));
  if (agreed_.mapping->token != offer.token) fail(Cause::kUnsupported, "that is another process's segment");
  prove_for(offer);
  return Kind::kProved;
}

void ConnectionSetUp::hear_proof(const SetUpMessage& peer) {
  if (channel_.connecting) prove_for(peer);
  agreed_.fetch = can_fetch_ && peer.can_fetch;
  file_ = Descriptor();  // the mappings keep the memory
}

void ConnectionSetUp::prove_for(const SetUpMessage& peer) {
  agreed_.peer_process = static_cast<std::int64_t>(peer.process);
  can_fetch_ = may_fetch_ && can_read(peer);
  prove(mine(Kind::kProved));
}

std::unique_ptr<Connection> ConnectionSetUp::make() {
  channel_.log.info("{}: messages above 32 KiB are {}", description_,
                    agreed_.fetch ? "fetched from the sender's memory (one copy)"
                                  : "copied through the ring, since one end may not read the other's memory "
                                    "(TOMBOLO_SHM_FETCH=off, kernel.yama.ptrace_scope, or different users)");
  return std::make_unique<ShmConnection>(std::move(channel_), std::move(agreed_));
}

}  // namespace tombolo::transport::shm
