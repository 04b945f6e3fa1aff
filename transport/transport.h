// Bytes between two processes: the one interface that every backend (memory, tcp, shm, rdma, ucx)
// implements, and that the collective engine and the NCCL plugin drive. The room transport/ owns these
// backends, how their connections begin, and the choice among them; it knows of no groups of processes.
//
// Contract
//  * Set-up never blocks: listen() returns at once; accept() and Connecting::poll() return null for "ask
//    again". Set-up fails by throwing tombolo::Error within ConnectOptions::deadline, naming peer, NICs,
//    address and cause.
//  * A Connection is full duplex. Messages of one direction match receives in posting order. A receive may
//    be larger than the message (its size is a capacity); a larger message is an error of the connection, or
//    where RouterOptions::overlong says so and the transport can, the receive takes what fits.
//    Zero-byte messages count.
//  * Posting never blocks and never throws. A full request pool gives null: "try again".
//  * Any request may be tested first; testing any one progresses all of its connection.
//  * One thread at a time uses a Connection (no locks on the hot path). register_memory alone may come from
//    another.
//  * A send is done when its buffer may be used again. For a large message that may be only once the peer
//    has received it, so that its receive must be posted for the send to end.
//  * The hot path (post, test, progress) allocates nothing and throws nothing.
//  * Destroying a Connection with requests in flight is legal: they are dropped, buffers are no longer
//    touched once the destructor returns, and the peer's requests fail with Cause::kRemote.
//  * After one failure every request of the connection fails, and error() says why: operation, peer, NICs,
//    address, cause.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "topology/nic.h"
#include "transport/endpoint.h"

namespace tombolo::transport {

enum class Outcome : std::uint8_t { kPending, kDone, kFailed };

class OneSided;
class Resumable;

enum class MemoryKind : std::uint8_t { kHost, kCuda };

/// What becomes of a message that is larger than its receive.
enum class Overlong : std::uint8_t {
  kError,     ///< the connection fails, naming both sizes
  kTruncate,  ///< over TCP and shared memory the rest is discarded; the receive's size is then its capacity
};

/// A registration of a buffer with a connection; backends derive from it. Its destructor deregisters, and
/// must run before the connection's.
class Memory {
 public:
  virtual ~Memory() = default;
};

/// A posted operation, owned by its connection's pool and valid until test() returns something else than
/// kPending.
class Request {
 protected:
  ~Request() = default;
};

/// How a connection was routed, and why.
struct Route {
  std::string transport;                             ///< "tcp", "tcp+tls", "shm", "rdma", "memory"
  topology::NicKind kind = topology::NicKind::kTcp;  ///< of the NICs, as declared
  std::string local_nic, peer_nic;
  std::string peer_host;
  std::string peer_address;
  bool emulated = false;  ///< the NIC kind is only declared by a cluster file; the bytes go over TCP
  std::string reason;     ///< why this, and why not the better ones
  /// Its NICs read and write GPU memory that is registered with it, where the hosts let them.
  bool reaches_gpu_memory = false;
  /// Both ends take its messages on over another way once this one fails (resumable.h).
  bool resumable = false;
  /// Connecting end, where resumable: the listener to which the peer's host is asked for that way; 0: the
  /// peer says it later.
  std::uint32_t legs_listener = 0;
};

/// What a request waits for.
enum class WaitsFor : std::uint8_t {
  kPeer,         ///< the network, or what the peer does
  kGpuCopy,      ///< it is staged, and this end's GPU has not done a copy of a piece
  kStagedPiece,  ///< it is staged: the network, or what the peer or its GPU does
};

/// The way of one request, which another one's need not be where a connection goes on over another way.
struct RequestWay {
  const Route* route = nullptr;  ///< valid as long as the connection
  WaitsFor waits = WaitsFor::kPeer;
};

struct Statistics {
  std::uint64_t connection = 0;                            ///< its number in the process's meters and traces
  std::uint64_t bytes_sent = 0, bytes_received = 0;        ///< payload
  std::uint64_t messages_sent = 0, messages_received = 0;  ///< completed
  /// Times that something was pending and nothing moved for 100 ms or more, and how long that was in all. A
  /// waiting receive may only mean that the peer computes.
  std::uint64_t send_stalls = 0, receive_stalls = 0;
  Duration send_stalled{}, receive_stalled{};
  std::uint64_t live_streams = 0, decided_streams = 0;  ///< 0 where the transport has none
  std::uint64_t retransmitted = 0;                      ///< segments that the kernel sent again
  std::uint64_t replayed = 0;                           ///< chunks sent again after a stream broke
  std::uint64_t breaks = 0, rejoins = 0;                ///< of streams
};

class Connection {
 public:
  virtual ~Connection() = default;

  /// Backends that need no registration return a trivial object. Throws kUnsupported for a kind they cannot
  /// carry.
  virtual std::unique_ptr<Memory> register_memory(std::span<std::byte> buffer, MemoryKind kind) = 0;

  /// GPU memory exported as DMA-BUF: the range's bytes start at `offset` of `file`, which may be closed
  /// afterwards. Throws kUnsupported where the connection or the system cannot carry it, saying why.
  virtual std::unique_ptr<Memory> register_dma_buf(std::span<std::byte> range, int file,
                                                   std::uint64_t offset) = 0;

  /// `data` must stay unchanged until the request is done. `memory` may be null for host memory.
  virtual Request* post_send(std::span<const std::byte> data, Memory* memory = nullptr) noexcept = 0;
  /// `buffer` belongs to the request until that is done, and takes messages of up to its size.
  virtual Request* post_receive(std::span<std::byte> buffer, Memory* memory = nullptr) noexcept = 0;

  /// Waits until what a receive has put into GPU memory can be seen by the GPU: call it once the receive is
  /// done, and test the request. Null where there is nothing to wait for, or where error() has become set.
  /// `memory` is the receive's; at most kRequestsPerDirection flushes are under way.
  virtual Request* post_flush(std::span<const std::byte> /*data*/, Memory* /*memory*/) noexcept {
    return nullptr;
  }

  /// Progresses the connection. On kDone sets `bytes` to the message's real size and returns the request to
  /// the pool. On kFailed the request is returned to the pool too.
  virtual Outcome test(Request* request, std::size_t& bytes) noexcept = 0;

  /// Moves what can be moved without blocking; true if anything moved.
  virtual bool progress() noexcept = 0;

  /// Appends descriptors and events to poll(2) for before calling progress() again (not on the hot path).
  virtual void append_wait_handles(std::vector<pollfd>& handles) const = 0;

  /// Why the connection has failed; null while it has not. Owned by the connection.
  virtual const Error* error() const noexcept = 0;
  /// Whether the peer has ended the connection, as far as is known: nothing comes any more but messages that
  /// have come and wait for their receives. error() becomes set only behind those. An owner that has posted
  /// nothing here, and still waits for what the peer does elsewhere, asks again and again, with progress():
  /// the connection tests meanwhile whether the peer still answers, as it does while a receive waits.
  virtual bool peer_ended() noexcept { return error() != nullptr; }

  /// What the connecting side passed in ConnectOptions::label (on both sides).
  virtual std::uint64_t label() const noexcept = 0;
  /// How it was routed; valid as long as the connection.
  virtual const Route& route() const noexcept = 0;
  /// By which way a request goes, and what the oldest that goes there waits for. Of one that test() has just
  /// answered for, the way that it went. Not for flushes.
  virtual RequestWay way_of(const Request* /*request*/) const noexcept { return {&route(), WaitsFor::kPeer}; }
  /// A copy of its counters.
  virtual Statistics statistics() const noexcept = 0;

  /// What lets its messages go on over another connection; null where that cannot be had.
  virtual Resumable* resumable() noexcept { return nullptr; }

  /// What reads and writes the other end's memory without its processor (one_sided.h); null where the
  /// transport has none.
  virtual OneSided* one_sided() noexcept { return nullptr; }
};

/// A connection that needs no registration of host memory, and carries no other.
class HostMemoryConnection : public Connection {
 public:
  std::unique_ptr<Memory> register_memory(std::span<std::byte> buffer, MemoryKind kind) override;
  std::unique_ptr<Memory> register_dma_buf(std::span<std::byte> range, int file,
                                           std::uint64_t offset) override;
};

struct ConnectOptions {
  std::uint64_t label = 0;                       ///< tells the accepting side which connection this is
  Duration deadline = std::chrono::seconds(30);  ///< for the whole set-up
  std::string peer_name;                         ///< "rank 3", for messages
};

class Connecting {
 public:
  /// Destroying it before it is ready abandons the attempt.
  virtual ~Connecting() = default;
  /// The connection once it is ready; null means "ask again". Throws when it cannot be made or the deadline
  /// has passed.
  virtual std::unique_ptr<Connection> poll() = 0;
  virtual void append_wait_handles(std::vector<pollfd>& handles) const = 0;
};

class Listener {
 public:
  virtual ~Listener() = default;
  /// What a peer needs to connect.
  virtual const Endpoint& endpoint() const noexcept = 0;
  /// The next authenticated connection; null means "ask again". Peers that fail the handshake (wrong secret,
  /// wrong version, garbage, half-open past the deadline) are dropped and logged, and do not disturb the
  /// others.
  virtual std::unique_ptr<Connection> accept() = 0;
  virtual void append_wait_handles(std::vector<pollfd>& handles) const = 0;
};

}  // namespace tombolo::transport
