// Reading the memory of the process at the other end, and the proof that it is the memory of that process.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace tombolo::transport::shm {

/// Random bytes that one end chooses and the other keeps in its memory.
using Nonce = std::array<std::byte, 16>;

/// What the peer reads after this is not taken for this process's any more. Call it before a buffer that the
/// peer was told of returns to its owner.
void wipe(Nonce& nonce) noexcept;
/// Whether the owner of a nonce in shared memory has wiped it.
bool is_wiped(Nonce& nonce) noexcept;

/// Where this process keeps the peer's nonce, for as long as the peer may read this process's memory. Its
/// address stays the same when it is moved.
class Witness {
 public:
  Witness() : kept_(std::make_unique<Nonce>()) {}
  Witness(Witness&&) noexcept = default;
  Witness& operator=(Witness&&) = delete;
  ~Witness() { wipe(); }

  std::uint64_t address() const noexcept { return reinterpret_cast<std::uint64_t>(kept_.get()); }
  void keep(const Nonce& nonce) noexcept { *kept_ = nonce; }
  void wipe() noexcept {
    if (kept_) shm::wipe(*kept_);
  }

 private:
  std::unique_ptr<Nonce> kept_;
};

/// The memory of the process at the other end, of which only this end knows the nonce until it is told.
class PeerMemory {
 public:
  enum class Outcome {
    kRead,
    kForbidden,   ///< the kernel does not let this process read it
    kNotThePeer,  ///< there is no such process, or its memory holds no nonce of this end (any more)
    kUnreadable,  ///< it is the peer, but the bytes cannot be read
  };

  PeerMemory() = default;
  /// `witness`: the address at which that process says to keep `nonce`.
  PeerMemory(std::int64_t process, std::uint64_t witness, const Nonce& nonce)
      : process_(process), witness_(witness), nonce_(nonce) {}

  std::int64_t process() const noexcept { return process_; }
  /// Copies that many bytes into `to`. The nonce is read last and in the same call, which looks the process
  /// up once: so on kRead the bytes are the peer's, and its buffer was not yet returned to its owner when
  /// they were read. In all other cases `to` may have been written.
  Outcome read(std::span<std::byte> to, std::uint64_t from) const noexcept;
  /// As read(), without the nonce, which takes a tenth of a short read's time: whoever calls it knows by
  /// other means that the process is the peer, and that its buffer was not yet returned when this ends.
  Outcome read_unproven(std::span<std::byte> to, std::uint64_t from) const noexcept;
  /// Whether the nonce is where the peer says.
  Outcome verify() const noexcept { return read({}, 0); }

 private:
  std::int64_t process_ = 0;
  std::uint64_t witness_ = 0;
  Nonce nonce_{};
};

/// Why the process that a peer names cannot be the peer; empty where it can. It must belong to this
/// process's user, and where `socket` is of the kind for which the kernel knows the other end, be that one.
std::string why_not_the_peer(int socket, std::int64_t process);

}  // namespace tombolo::transport::shm
