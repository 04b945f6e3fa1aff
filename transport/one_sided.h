// Reading and writing the other end's memory without its processor, where a connection's NICs can do that
// (Connection::one_sided()).
//
// Each end opens windows, and tells the other end by a message what remote() says of them. Whoever knows that
// may read and write the window until it is destroyed. Used by the connection's own thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace tombolo::transport {

/// What the other end needs to reach a window. Both ends are x86-64, so that the fields travel as they are.
struct RemoteWindow {
  static constexpr std::size_t kMostKeys = 4;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;                      ///< 0: it cannot be reached
  std::array<std::uint32_t, kMostKeys> keys{};  ///< by pair of NICs

  bool holds(std::uint64_t offset, std::uint64_t count) const noexcept {
    return offset <= bytes && count <= bytes - offset;
  }
};
static_assert(sizeof(RemoteWindow) == 32);

/// Memory of this end's that the other end may reach, and that this end's operations may use. The memory
/// stays its owner's. It may outlive the connection.
class OpenWindow {
 public:
  virtual ~OpenWindow() = default;
  virtual RemoteWindow remote() const noexcept = 0;
};

/// One read or write of the other end's memory. It is its caller's, who lets it live, and leaves all but
/// `state` alone, until that is not kUnderWay any more or the connection has ended.
struct OneSidedOperation {
  enum class Kind : std::uint8_t { kWrite, kRead };
  enum class State : std::uint8_t {
    kIdle,
    kUnderWay,
    kDone,  ///< a write: the bytes are in the other end's memory; a read: they are here
    kLost   ///< nobody knows how much of it was done; nothing of it is done any more
  };
  Kind kind = Kind::kWrite;
  std::atomic<State> state = State::kIdle;  ///< set by the connection; kLost also where that has failed
  const OpenWindow* window = nullptr;       ///< that holds `local`; one that the same connection opened
  std::byte* local = nullptr;               ///< never written through for a write
  std::uint64_t bytes = 0;
  RemoteWindow remote;
  std::uint64_t offset = 0;  ///< in `remote`, which holds the range
};

/// Operations may overtake each other. A message that is sent once a write is done arrives behind its bytes.
class OneSided {
 public:
  enum class Begun : std::uint8_t {
    kYes,
    kTryAgain,  ///< too many are under way
    kNever      ///< this connection does none, or not any more: it has failed, or goes over another way
  };
  /// Throws kSystem where a NIC refuses the memory, kUnsupported where begin() would answer kNever.
  virtual std::unique_ptr<OpenWindow> open(std::span<std::byte> memory) = 0;
  /// Never blocks. Progressing the connection moves the operation.
  virtual Begun begin(OneSidedOperation& operation) noexcept = 0;

 protected:
  ~OneSided() = default;
};

}  // namespace tombolo::transport
