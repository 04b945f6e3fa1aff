#include "transport/shm/peer_memory.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "transport/kernel.h"

namespace tombolo::transport::shm {

void wipe(Nonce& nonce) noexcept {
  // The fence keeps what follows in the program, the owner's use of its buffer, behind the wiping.
  for (std::byte& each : nonce)
    std::atomic_ref<std::byte>(each).store(std::byte{0}, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

bool is_wiped(Nonce& nonce) noexcept {
  for (std::byte& each : nonce)
    if (std::atomic_ref<std::byte>(each).load(std::memory_order_relaxed) != std::byte{0}) return false;
  return true;
}

PeerMemory::Outcome PeerMemory::read_unproven(std::span<std::byte> to, std::uint64_t from) const noexcept {
  const iovec mine{to.data(), to.size()}, theirs{reinterpret_cast<void*>(from), to.size()};
  const ssize_t got = kernel().process_vm_readv(static_cast<pid_t>(process_), &mine, 1, &theirs, 1, 0);
  return got == std::ssize(to) ? Outcome::kRead : read(to, from);
}

PeerMemory::Outcome PeerMemory::read(std::span<std::byte> to, std::uint64_t from) const noexcept {
  Nonce seen{};
  const std::array<iovec, 2> mine{iovec{to.data(), to.size()}, iovec{seen.data(), seen.size()}};
  const std::array<iovec, 2> theirs{iovec{reinterpret_cast<void*>(from), to.size()},
                                    iovec{reinterpret_cast<void*>(witness_), seen.size()}};
  const ssize_t got = kernel().process_vm_readv(static_cast<pid_t>(process_), mine.data(), mine.size(),
                                                theirs.data(), theirs.size(), 0);
  if (got == std::ssize(to) + std::ssize(seen)) return seen == nonce_ ? Outcome::kRead : Outcome::kNotThePeer;
  if (got < 0 && (errno == EPERM || errno == ENOSYS || errno == EACCES)) return Outcome::kForbidden;
  if (to.empty() || (got < 0 && errno == ESRCH)) return Outcome::kNotThePeer;
  // The bytes could not all be read. Whether that is because of another process the nonce tells by itself.
  const Outcome witness = verify();
  return witness == Outcome::kRead ? Outcome::kUnreadable : witness;
}

std::string why_not_the_peer(int socket, std::int64_t process) {
  struct stat status {};
  if (process <= 0 || process > INT32_MAX ||
      kernel().stat(fmt::format("/proc/{}", process).c_str(), &status) != 0) {
    return fmt::format(
        "the peer says to be process {}, which this process does not see (another PID namespace?)", process);
  }
  if (status.st_uid != geteuid()) {
    return fmt::format(
        "the peer says to be process {}, which belongs to user {}, and this process to user {}", process,
        status.st_uid, geteuid());
  }
  int domain = 0;
  ucred known{};
  socklen_t size = sizeof domain, known_size = sizeof known;
  if (kernel().getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX &&
      kernel().getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &known, &known_size) == 0 &&
      known.pid != process) {
    return fmt::format(
        "the peer says to be process {}, but its end of the control channel belongs to process {}", process,
        known.pid);
  }
  return {};
}

}  // namespace tombolo::transport::shm
