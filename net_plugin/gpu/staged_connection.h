// A connection that carries GPU memory over a transport that reaches host memory alone: through pinned
// memory, with copies that the GPU does by itself.
//
// What goes over the transport beneath is a stream of pieces. Each of its messages is of kPieceBytes at most;
// a message of S bytes is S / kPieceBytes full ones and a short one, possibly empty, which ends it. So the
// receiver posts its own pieces before it knows which message comes or where that goes, and no receive waits
// for a size. Messages from and to host memory take the same way, without copies by a GPU: the two ends need
// not agree on where a buffer lies. They must agree to stage.
//
// A piece of a message from GPU memory: kFree, kCopyingOut, kSending, kFree; of one into it: kFree,
// kReceiving, kArrived, kCopyingIn, kFree. It is sent once its copy is over, in order. A send is done when
// every piece of it is done beneath, so that nothing more need be called for it to arrive; a receive when its
// last copy is over.
//
// Nothing here waits for a GPU. A copy may nevertheless take as long as the program's own work in front of
// it: see "GPU memory" in docs/net-plugin.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "net_plugin/gpu/staging.h"
#include "transport/failing.h"
#include "transport/kernel.h"
#include "transport/request_pool.h"
#include "transport/transport.h"

namespace tombolo::net_plugin::gpu {

enum class PieceState : std::uint8_t {
  kFree,
  kCopyingOut,
  kReady,
  kSending,
  kReceiving,
  kArrived,
  kCopyingIn
};

/// What messages are posted in. A connection owns pieces for these alone, and posts in another end the
/// process.
enum class Directions : std::uint8_t { kSend, kReceive, kBoth };

class StagedMemory;

/// The pieces that a connection owns in each direction, whatever the others of the process do. They are
/// reserved in set-up, which may be before the connection is made.
class OwnPieces {
 public:
  /// May lock memory. Throws kSystem where it cannot.
  OwnPieces(std::shared_ptr<Staging> staging, std::size_t sends, std::size_t receives);
  ~OwnPieces();
  OwnPieces(const OwnPieces&) = delete;
  OwnPieces& operator=(const OwnPieces&) = delete;

  FreePieces sends, receives;

 private:
  std::shared_ptr<Staging> staging_;
};

/// Contract and threads: transport.h's. Memory of kind kCuda lies in one GPU's memory, and its address is
/// CUDA's.
class StagedConnection final : public transport::Connection {
 public:
  /// Pieces of a connection in each direction, those that it owns and those of the pool.
  static constexpr std::size_t kMostPieces = 16, kOwnPieces = 2;

  /// Set-up: may lock memory. Throws kSystem where it cannot.
  StagedConnection(std::unique_ptr<transport::Connection> beneath, Directions directions,
                   std::shared_ptr<Staging> staging, Log log,
                   transport::Overlong overlong = transport::Overlong::kError);
  /// For both directions, with pieces that were reserved before; locks no memory.
  StagedConnection(std::unique_ptr<transport::Connection> beneath, std::shared_ptr<OwnPieces> own,
                   std::shared_ptr<Staging> staging, Log log, transport::Overlong overlong);
  /// Begins no copy any more, and gives those under way Staging::copy_time(); memory that one still uses
  /// then is left to it, and a warning says so. A forked child's copy, for which CUDA does not work, neither
  /// asks for copies nor waits for any.
  ~StagedConnection() override;
  StagedConnection(const StagedConnection&) = delete;
  StagedConnection& operator=(const StagedConnection&) = delete;

  std::unique_ptr<transport::Memory> register_memory(std::span<std::byte> buffer,
                                                     transport::MemoryKind kind) override;
  /// GPU memory by its address: the descriptor is not used.
  std::unique_ptr<transport::Memory> register_dma_buf(std::span<std::byte> range, int file,
                                                      std::uint64_t offset) override;
  transport::Request* post_send(std::span<const std::byte> data, transport::Memory* memory) noexcept override;
  transport::Request* post_receive(std::span<std::byte> buffer, transport::Memory* memory) noexcept override;
  transport::Outcome test(transport::Request* request, std::size_t& bytes) noexcept override;
  bool progress() noexcept override;
  void append_wait_handles(std::vector<pollfd>& handles) const override;
  const Error* error() const noexcept override;
  bool peer_ended() noexcept override { return failed() || beneath_->peer_ended(); }
  std::uint64_t label() const noexcept override { return beneath_->label(); }
  const transport::Route& route() const noexcept override { return route_; }
  transport::RequestWay way_of(const transport::Request* request) const noexcept override {
    return {&route_, waits_for(static_cast<const Message*>(request)->is_send ? sends_ : receives_)};
  }
  transport::Statistics statistics() const noexcept override;

 private:
  struct Message final : transport::Request {
    enum class State : std::uint8_t { kFree, kPosted, kDone };
    State state = State::kFree;
    bool is_send = false;
    bool whole = false;  ///< send: cut to its end; receive: its last piece has come
    std::byte* data = nullptr;
    std::size_t size = 0;   ///< of the message (send) or the buffer (receive)
    std::size_t moved = 0;  ///< send: bytes cut; receive: bytes that have come
    const StagedMemory* memory = nullptr;
    std::uint32_t pieces = 0;  ///< under way
    std::uint32_t copies = 0;  ///< of these, with a copy under way
    Message* next = nullptr;   ///< free, or posted after it
  };
  /// Messages of one direction that are not whole, in the order of posting.
  struct Queue {
    Message* first = nullptr;
    Message* last = nullptr;
    void push(Message* message) noexcept;
    void pop() noexcept { first = first->next; }
  };
  struct Slot {
    Piece* piece = nullptr;  ///< null for a piece of a message in host memory that is being sent
    PieceState state = PieceState::kFree;
    const std::byte* data = nullptr;
    std::size_t bytes = 0;
    transport::Request* beneath = nullptr;
    Message* message = nullptr;
    Copier* copier = nullptr;
  };
  /// The pieces of one direction, in the order of the stream. For sends those from `oldest` on are under way,
  /// and those from `next` on not handed to the transport. For receives those before `next` have come and are
  /// being copied, the others are expected.
  struct Stream {
    std::array<Slot, kMostPieces> slots;
    std::uint64_t oldest = 0, next = 0, end = 0;
    bool over = false;  ///< the transport has failed, and said so of one of its pieces
    FreePieces* own = nullptr;
    Queue queue;
    std::vector<Message> messages;
    Message* free = nullptr;
    std::uint64_t bytes_done = 0, messages_done = 0;
    Slot& at(std::uint64_t number) noexcept { return slots[number % kMostPieces]; }
    bool full() const noexcept { return end - oldest == kMostPieces; }
  };

  void open(Stream& stream, bool is_send);
  void close(Stream& stream, bool wait) noexcept;
  transport::Request* post(Stream& stream, std::byte* data, std::size_t size,
                           const transport::Memory* memory) noexcept;
  Piece* take(Stream& stream, bool shared_too) noexcept;
  void put(Stream& stream, Piece* piece) noexcept;
  Copy::State copy_of(Slot& slot) noexcept;
  void finish_if_over(Stream& stream, Message& message) noexcept;

  bool retire_sends() noexcept;
  bool cut_sends() noexcept;
  bool hand_over_sends() noexcept;
  bool retire_receives() noexcept;
  bool take_arrivals() noexcept;
  bool place(Slot& slot) noexcept;
  bool expect_pieces() noexcept;
  std::size_t pieces_wanted() const noexcept;
  static transport::WaitsFor waits_for(const Stream& stream) noexcept;
  bool is_lost(const Message& message) const noexcept;
  void drain_copies() noexcept;
  /// `text` makes the text, for which memory may be lacking.
  template <typename MakeText>
  void fail_with(Cause cause, const MakeText& text) noexcept {
    transport::guarded([&] { fail_by(cause, text()); },
                       [&](Cause, std::string_view why) noexcept { fail_by(cause, why); });
  }
  void fail_by(Cause cause, std::string_view text) noexcept;
  /// Whether a piece has come that no receive has taken, or may have.
  bool may_bring() const noexcept { return !error_ && !receives_.over && receives_.next < receives_.end; }
  bool failed() const noexcept { return error_.has_value() || beneath_->error() != nullptr; }

  StagedConnection(std::unique_ptr<transport::Connection> beneath, Directions directions,
                   std::shared_ptr<OwnPieces> own, std::shared_ptr<Staging> staging, Log log,
                   transport::Overlong overlong);

  std::unique_ptr<transport::Connection> beneath_;
  std::shared_ptr<OwnPieces> own_;
  std::shared_ptr<Staging> staging_;
  Log log_;
  transport::Overlong overlong_;
  transport::Route route_;
  std::string description_;  // for errors
  transport::FailureTexts texts_;
  std::optional<Error> error_;
  Stream sends_, receives_;
  bool asked_beneath_ = false;  // in this turn
  const unsigned generation_ = transport::fork_generation();
};

/// A registration with a staged connection: in host memory, or in a GPU's.
class StagedMemory final : public transport::Memory {
 public:
  StagedMemory(std::unique_ptr<transport::Memory> beneath, Copier* copier)
      : beneath_(std::move(beneath)), copier_(copier) {}
  transport::Memory* beneath() const noexcept { return beneath_.get(); }  ///< null for GPU memory
  Copier* copier() const noexcept { return copier_; }                     ///< null for host memory

 private:
  std::unique_ptr<transport::Memory> beneath_;
  Copier* copier_;
};

}  // namespace tombolo::net_plugin::gpu
